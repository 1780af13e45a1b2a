"""Calls to the controller, and what is remembered of its answers."""
