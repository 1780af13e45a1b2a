"""Versioned rows in tables, and what the controller keeps in them."""
