"""Benchmarks: each prints its floor, measured in the same run, beside its result, and checks what it moved."""
