"""Tier 2: segments as chunks, chunks as objects."""
