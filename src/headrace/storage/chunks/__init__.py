"""Segments as lists of chunks: plans of what is written, joined, dropped or replaced, and their drivers."""
