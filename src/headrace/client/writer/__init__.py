"""Writing: events are framed, routed by key, sent in blocks that overlap, and stored exactly once."""
