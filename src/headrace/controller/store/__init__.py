"""Versioned rows in tables, and what the controller stores in them."""
