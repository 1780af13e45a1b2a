"""Storage checkpoints: copies of a container's log beside its chunks, from which a lost log is rebuilt."""
