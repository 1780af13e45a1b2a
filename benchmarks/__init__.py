"""Benchmarks: each prints its floor, measured in the same run, and checks what it moved."""
