"""Chunks in object stores: a small one of ours, and real servers where they are installed."""
