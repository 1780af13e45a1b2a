"""Rows of a container that long-term storage holds: what is in each, and where it is kept."""
