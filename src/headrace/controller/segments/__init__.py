"""Calls to segment stores."""
