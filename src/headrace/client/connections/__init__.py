"""Connections to segment stores: one per host and use, shared by flows that survive its loss."""
