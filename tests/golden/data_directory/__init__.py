"""Data directories that earlier releases left behind, and what is in them."""
