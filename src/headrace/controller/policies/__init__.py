"""Decisions about streams that need no I/O."""
