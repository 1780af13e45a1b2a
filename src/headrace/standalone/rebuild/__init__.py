"""Rebuilds the logs of a system from storage checkpoints."""
