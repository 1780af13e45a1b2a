"""The REST interface of a controller."""
