"""readindex."""
