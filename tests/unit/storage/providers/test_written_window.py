"""Which written bytes are handed out as old: all of them once, oldest chunks first, within bounds."""

import mmap
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.limits import KIB, MIB
from headrace.storage.providers.files import written_window
from headrace.storage.providers.files.written_window import WrittenWindow

PAGE = mmap.PAGESIZE


@given(
    bytes_max=st.sampled_from([0, 10_000, MIB, 20 * MIB]),
    writes=st.lists(st.tuples(st.integers(0, 5), st.integers(0, 8 * MIB), st.booleans()), max_size=40),
)
def test_every_page_is_handed_out_once_and_the_window_holds_the_rest(bytes_max, writes):
    window = WrittenWindow(bytes_max)
    lengths, handed_out = Counter(), {}
    for number, length, takes in writes:
        name = f"c{number}"
        window.note(name, lengths[name], length)
        lengths[name] += length
        if not takes:
            continue
        assert window.is_over is (window.bytes > bytes_max)
        for stale in window.take_stale():
            begin = handed_out.get(stale.name, 0)
            # Where a range was handed out to its end, its last page was not whole, and comes again.
            assert stale.offset == begin - begin % PAGE
            handed_out[stale.name] = stale.offset + stale.length
            assert handed_out[stale.name] <= lengths[stale.name]
        assert window.bytes <= bytes_max
    left = sum(lengths[name] - handed_out.get(name, 0) for name in lengths)
    assert left <= window.bytes <= left + PAGE * len(lengths)


def test_the_oldest_chunk_goes_first_and_only_as_much_as_must():
    window = WrittenWindow(64 * MIB)
    for name in ("a", "b", "c"):
        window.note(name, 0, 24 * MIB)
    window.note("a", 24 * MIB, 1 * MIB)  # keeps its place
    stale = window.take_stale()
    assert stale == [("a", 0, 16 * MIB)]  # 13 MiB rounded up: room for one sixteenth more
    assert not window.is_over
    assert window.take_stale() == []


def test_a_forgotten_chunk_is_not_handed_out():
    window = WrittenWindow(MIB)
    window.note("a", 0, MIB)
    window.note("b", 0, MIB)
    window.forget("a")
    window.forget("never heard of")
    assert window.bytes == MIB
    assert not window.is_over
    window.note("c", 0, MIB)
    assert [each.name for each in window.take_stale()] == ["b", "c"]  # of c what makes room


@pytest.fixture
def few(monkeypatch):
    monkeypatch.setattr(written_window, "CHUNKS_MAX", 32)
    monkeypatch.setattr(written_window, "STALE_MAX", 10)


def test_many_small_chunks_are_handed_out_before_the_window_is_full(few):
    window = WrittenWindow(MIB)
    for number in range(33):
        window.note(f"c{number}", 0, 100)
    assert window.is_over
    assert [each.name for each in window.take_stale()] == ["c0", "c1", "c2"]
    assert window.bytes == 3000
    assert not window.is_over


def test_so_many_are_handed_out_at_a_time(few):
    window = WrittenWindow(0)
    for number in range(25):
        window.note(f"c{number}", 0, 10 * KIB)
    assert [len(window.take_stale()) for _ in range(4)] == [10, 10, 5, 0]


def test_what_nobody_takes_is_forgotten(few):
    window = WrittenWindow(0)
    for number in range(1000):
        window.note(f"c{number}", 0, 10)
    assert window.bytes == 640
    assert window.take_stale()[0].name == "c936"
