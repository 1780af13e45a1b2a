"""Meters the load of segments whose streams scale by themselves, and reports those that are hot or cold."""
