"""The world of the read index, and of those who test it."""

from tests.simulation.worlds.read_index_world import BLOCK, FakeStorage, World, pattern, settle, small_cache

__all__ = ["BLOCK", "FakeStorage", "World", "pattern", "settle", "small_cache"]
