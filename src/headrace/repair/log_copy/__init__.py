"""Moves the logs of a stopped system to another place."""
