"""durablelog."""
