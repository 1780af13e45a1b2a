"""What a container owes to long-term storage: durable operations become chunks, then the log is truncated."""
