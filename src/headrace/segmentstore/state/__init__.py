"""The state of a container and its segments, and the only legal changes of it: plain Python, no waiting."""
