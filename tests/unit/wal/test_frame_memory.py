import ctypes
import gc
import struct
import weakref
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.wal import frame_memory
from headrace.wal.config import BLOCK_BYTES
from headrace.wal.frame_memory import WARM_FRAMES, FrameMemory, reserve_pages, return_pages
from headrace.wal.frame_pool import FramePool
from headrace.wal.record_format import RECORD_HEADER_BYTES, padded_bytes
from tests.effort import examples

MIB = 1 << 20


def address_of(view):
    return ctypes.addressof(ctypes.c_char.from_buffer(view))


def pages_present(view):
    """How many ordinary pages of ``view`` the system has given memory for, as its page map says."""
    with Path("/proc/self/pagemap").open("rb") as page_map:
        page_map.seek(address_of(view) // BLOCK_BYTES * 8)
        entries = struct.unpack(f"={len(view) // BLOCK_BYTES}Q", page_map.read(len(view) // BLOCK_BYTES * 8))
    return sum(entry >> 63 for entry in entries)


@pytest.mark.parametrize("capacity", [1, 512, 4032, 4033, 1 << 20, 2 << 20])
def test_a_frame_is_aligned_and_its_content_lies_behind_the_header(capacity):
    frame = FrameMemory(capacity).take()
    assert len(frame.view) == capacity
    assert address_of(frame.buffer) % BLOCK_BYTES == 0
    assert address_of(frame.view) - address_of(frame.buffer) == RECORD_HEADER_BYTES
    assert len(frame.buffer) == padded_bytes(capacity)
    frame.view[0] = 7
    assert frame.buffer[RECORD_HEADER_BYTES] == 7


@pytest.mark.parametrize("length", [4096, (2 << 20) - 4096, 2 << 20, (2 << 20) + 4096, (5 << 20) + 4096])
def test_reserved_pages_are_zeroed_whole_and_aligned_for_the_largest_pages_they_can_fill(length):
    pages = reserve_pages(length)
    assert len(pages) == length
    assert address_of(pages) % (2 << 20 if length >= 2 << 20 else BLOCK_BYTES) == 0
    assert bytes(pages[:4096]) == bytes(pages[-4096:]) == bytes(4096)
    pages[0] = pages[-1] = 1


def test_a_frame_touched_from_end_to_end_takes_no_huge_page_that_it_does_not_fill():
    frame = FrameMemory(2 * MIB).take()
    frame.buffer[:] = b"x" * len(frame.buffer)
    assert len(frame.buffer) == 2 * MIB + BLOCK_BYTES
    around = memoryview(frame.buffer.obj)
    assert pages_present(around[: len(around) // BLOCK_BYTES * BLOCK_BYTES]) <= 2 * MIB // BLOCK_BYTES + 1


@pytest.mark.parametrize("length", [4096, 1 << 20, (2 << 20) + 4096])
def test_returned_pages_are_gone_and_usable_again(length):
    pages = reserve_pages(length)
    pages[:] = b"x" * length
    assert pages_present(pages) == length // BLOCK_BYTES
    return_pages(pages)
    assert pages_present(pages) == 0
    assert bytes(pages) == bytes(length)
    pages[:] = b"y" * length
    assert bytes(pages) == b"y" * length


def test_the_frame_that_came_back_last_is_lent_first():
    memory = FrameMemory(100)
    frames = [memory.take() for _ in range(5)]
    for frame in frames:
        memory.release(frame)
    assert [memory.take() for _ in range(5)] == frames[::-1]
    assert memory.frames_made == 5


def test_frames_that_are_prepared_are_lent_last_and_need_no_memory(monkeypatch):
    memory = FrameMemory(100)
    first = memory.take()
    memory.release(first)
    memory.prepare(3)
    memory.prepare(2)
    assert memory.statistics().bytes_kept == len(first.buffer)  # the new ones have no pages yet
    monkeypatch.setattr(frame_memory, "reserve_pages", lambda _: {}["none is left"])
    assert [memory.take() is first for _ in range(3)] == [True, False, False]
    assert (memory.frames_made, memory.frames_lent) == (3, 3)
    memory.check()


def fill(memory, count):
    """Let ``count`` frames be lent at the same time, and return them written, as a log does."""
    frames = [memory.take() for _ in range(count)]
    for frame in frames:
        frame.buffer[:] = b"x" * len(frame.buffer)
    for frame in reversed(frames):
        memory.release(frame)
    return frames


def test_frames_that_a_burst_needed_lose_their_pages_after_a_rest_and_those_in_use_keep_theirs():
    memory = FrameMemory(1000)
    frames = fill(memory, 10)
    assert memory.trim() == 0  # they have been used since the last time
    fill(memory, 3)
    assert memory.trim() == 7 * BLOCK_BYTES
    assert [frame.buffer[0] for frame in frames] == [ord("x")] * 3 + [0] * 7
    memory.check()
    statistics = memory.statistics()
    assert (statistics.frames_lent_max, statistics.frames_free, statistics.frames_trimmed) == (10, 10, 7)
    assert statistics.bytes_kept == 3 * BLOCK_BYTES
    assert memory.trim() == BLOCK_BYTES
    assert memory.trim() == 0  # what is warm stays warm
    assert memory.statistics().bytes_kept == WARM_FRAMES * BLOCK_BYTES
    fill(memory, 10)
    assert memory.statistics().bytes_kept == 10 * BLOCK_BYTES
    memory.check()


def test_frames_in_use_are_not_touched_by_trimming():
    memory = FrameMemory(1000)
    fill(memory, 6)
    memory.trim()
    held = [memory.take() for _ in range(4)]
    for frame in held:
        frame.buffer[:] = b"h" * len(frame.buffer)
    memory.trim()
    memory.trim()
    assert all(bytes(frame.buffer) == b"h" * len(frame.buffer) for frame in held)
    for frame in held:
        memory.release(frame)
    memory.check()


@pytest.mark.slow
def test_a_frame_that_its_owner_lost_is_unmapped_when_nobody_refers_to_it():
    memory = FrameMemory(100)
    pool = FramePool(100, 1, memory)
    frame = pool.acquire()
    mapping = weakref.ref(frame.buffer.obj)
    pool.close()
    gc.collect()
    assert mapping() is not None  # somebody may still write to it
    del frame
    gc.collect()
    assert mapping() is None
    memory.check()


@settings(max_examples=examples(60))
@given(st.data())
def test_no_sequence_of_calls_lends_a_frame_twice_or_trims_one_that_was_used_lately(data):
    memory = FrameMemory(64)
    lent, used, count = [], set(), 0
    for step in data.draw(st.lists(st.sampled_from("TTTGGGXAP"), max_size=60)):
        if step == "T":
            frame = memory.take()
            assert frame not in lent
            count += 1
            frame.view[0] = 1 + count % 255
            frame.length = frame.view[0]
            lent.append(frame)
            used.add(frame)
        elif step == "G" and lent:
            memory.release(lent.pop(data.draw(st.integers(0, len(lent) - 1))))
        elif step == "A" and lent:
            lent.pop()
            memory.abandon(1)
        elif step == "P":
            memory.prepare(data.draw(st.integers(0, 4)))
        elif step == "X":
            memory.trim()
            for frame in [*lent, *memory._free]:
                assert frame.view[0] == (frame.length if id(frame) in used else frame.view[0])
            used = {id(frame) for frame in lent}
        memory.check()
