import ctypes

import pytest

from headrace.wal.config import BLOCK_BYTES
from headrace.wal.frame_pool import FramePool, reserve_pages
from headrace.wal.record_format import RECORD_HEADER_BYTES, padded_bytes


def address_of(view):
    return ctypes.addressof(ctypes.c_char.from_buffer(view))


@pytest.mark.parametrize("capacity", [1, 512, 4032, 4033, 1 << 20])
def test_a_frame_is_aligned_and_its_content_lies_behind_the_header(capacity):
    frame = FramePool(capacity, 1).acquire()
    assert len(frame.view) == capacity
    assert address_of(frame.buffer) % BLOCK_BYTES == 0
    assert address_of(frame.view) - address_of(frame.buffer) == RECORD_HEADER_BYTES
    assert len(frame.buffer) == padded_bytes(capacity)
    frame.view[0] = 7
    assert frame.buffer[RECORD_HEADER_BYTES] == 7


@pytest.mark.parametrize("length", [4096, (2 << 20) - 4096, 2 << 20, (5 << 20) + 4096])
def test_reserved_pages_are_zeroed_whole_and_aligned_for_the_largest_pages_they_can_fill(length):
    pages = reserve_pages(length)
    assert len(pages) >= length
    assert address_of(pages) % (2 << 20 if length >= 2 << 20 else BLOCK_BYTES) == 0
    assert bytes(pages[:4096]) == bytes(pages[-4096:]) == bytes(4096)
    pages[0] = pages[-1] = 1


def test_frames_of_a_pool_do_not_overlap():
    pool = FramePool(1 << 20, 5)
    frames = [pool.acquire() for _ in range(5)]
    for number, frame in enumerate(frames):
        frame.buffer[:] = bytes([number]) * len(frame.buffer)
    for number, frame in enumerate(frames):
        assert frame.buffer == bytes([number]) * len(frame.buffer)


def test_the_pool_is_bounded_and_makes_frames_on_first_need():
    pool = FramePool(100, 3)
    assert (pool.frames_made, pool.frames_free) == (0, 3)
    frames = [pool.acquire() for _ in range(3)]
    assert len({id(frame) for frame in frames}) == 3
    assert pool.acquire() is None
    assert (pool.frames_made, pool.frames_free) == (3, 0)
    pool.release(frames[1])
    assert pool.acquire() is frames[1]
    pool.check()


def test_an_acquired_frame_is_empty():
    pool = FramePool(100, 1)
    frame = pool.acquire()
    frame.length = 50
    pool.release(frame)
    assert pool.acquire().length == 0


def test_each_return_is_announced_after_the_frame_is_free():
    pool = FramePool(100, 1)
    seen = []
    pool.set_on_frame_free(lambda: seen.append(pool.frames_free))
    pool.release(pool.acquire())
    assert seen == [1]
    pool.set_on_frame_free(None)
    pool.release(pool.acquire())
    assert seen == [1]


def test_returning_a_frame_twice_or_while_it_is_in_the_air_is_refused():
    pool = FramePool(100, 2)
    frame = pool.acquire()
    pool.release(frame)
    with pytest.raises(AssertionError):
        pool.release(frame)
    other = pool.acquire()
    other.done = lambda _frame, _error: None
    with pytest.raises(AssertionError):
        pool.release(other)


def test_ten_thousand_turns_make_no_new_frames():
    pool = FramePool(100, 4)
    for _ in range(10_000):
        pool.release(pool.acquire())
    assert pool.frames_made == 1
