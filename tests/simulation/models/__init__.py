"""What must have happened, by the answers alone: models share nothing with the implementation."""
