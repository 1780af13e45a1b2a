"""Where the bytes of a container's segments are: in the cache, in storage, in a merge, or not written yet."""
