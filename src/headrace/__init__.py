"""Headrace: tiered streaming storage in Python."""

__version__ = "0.1.0"
