"""Finds the bytes of a container's segments: in the cache, in storage, or in a merge."""
