"""What a container knows of its segments, and the only legal changes of it: plain Python, no waiting."""
