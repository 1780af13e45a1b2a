"""Settings of the parts of a controller."""
