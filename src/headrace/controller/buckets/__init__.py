"""Which controller does the background work of which streams."""
