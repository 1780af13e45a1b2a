"""Logs over real bookies: `make bookies`."""
