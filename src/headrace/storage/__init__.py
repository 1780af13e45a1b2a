"""Tier 2: segments as chunks, chunks as objects in some store, and rows that say which is which."""
