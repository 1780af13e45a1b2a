"""Whole programs in a breaking world: coroutine functions that take a ``Simulation`` and raise on failure."""
