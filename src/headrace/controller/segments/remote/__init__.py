"""Segment stores in other processes, called over connections."""
