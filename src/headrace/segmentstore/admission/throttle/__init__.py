"""Throttling before a bound is reached: sources of delay, each plain arithmetic, and one gate."""
