import resource
from pathlib import Path

import pytest

from headrace.runtime import allocator
from headrace.runtime.allocator import return_free_memory


def resident_bytes():
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


@pytest.mark.skipif(allocator._find_trim() is None, reason="this C library cannot")
def test_memory_freed_between_things_that_stay_goes_back_to_the_system():
    kept = [b"x" * 100_000 for _ in range(600)]
    kept = kept[::50]
    before = resident_bytes()
    return_free_memory()
    assert before - resident_bytes() > 20_000_000
    assert all(item == b"x" * 100_000 for item in kept)
    return_free_memory()


def test_a_library_that_cannot_is_no_error(monkeypatch):
    monkeypatch.setattr(allocator.ctypes, "CDLL", lambda _name: object())
    allocator._find_trim.cache_clear()
    try:
        return_free_memory()
    finally:
        allocator._find_trim.cache_clear()
