"""Reader groups: who is in them, how far they are, checkpoints and resets."""
