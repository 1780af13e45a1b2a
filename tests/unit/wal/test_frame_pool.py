import errno

import pytest

from headrace.wal import frame_memory
from headrace.wal.frame_memory import FrameMemory
from headrace.wal.frame_pool import FramePool


def test_frames_of_a_pool_do_not_overlap():
    pool = FramePool(1 << 20, 5)
    frames = [pool.acquire() for _ in range(5)]
    for number, frame in enumerate(frames):
        frame.buffer[:] = bytes([number]) * len(frame.buffer)
    for number, frame in enumerate(frames):
        assert frame.buffer == bytes([number]) * len(frame.buffer)


def test_the_pool_is_bounded_and_makes_frames_on_first_need():
    pool = FramePool(100, 3)
    assert (pool.memory.frames_made, pool.frames_free) == (0, 3)
    frames = [pool.acquire() for _ in range(3)]
    assert len({id(frame) for frame in frames}) == 3
    assert pool.acquire() is None
    assert (pool.memory.frames_made, pool.frames_free) == (3, 0)
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
    assert pool.memory.frames_made == 1


def test_pools_of_one_memory_use_the_same_frames_and_keep_bounds_of_their_own():
    memory = FrameMemory(100)
    one, two = FramePool(100, 2, memory), FramePool(100, 3, memory)
    frames = [one.acquire(), one.acquire()]
    assert one.acquire() is None
    assert two.frames_free == 3
    for frame in frames:
        one.release(frame)
    assert {id(two.acquire()), id(two.acquire())} == {id(frame) for frame in frames}
    assert memory.frames_made == 2
    one.check()
    two.check()


def test_a_frame_that_is_out_when_its_pool_closes_is_never_lent_to_another():
    memory = FrameMemory(100)
    dead, alive = FramePool(100, 3, memory), FramePool(100, 3, memory)
    returned, late, lost = dead.acquire(), dead.acquire(), dead.acquire()
    dead.release(returned)
    dead.close()
    dead.close()
    dead.release(late)
    lent = [alive.acquire() for _ in range(3)]
    assert returned in lent
    assert late not in lent
    assert lost not in lent
    assert (dead.frames_free, memory.frames_lent, memory.frames_made) == (2, 3, 3)
    dead.check()
    alive.check()


def test_a_closed_pool_lends_nothing_and_still_tells_who_waits():
    pool, seen = FramePool(100, 2), []
    pool.set_on_frame_free(lambda: seen.append(pool.frames_free))
    frame = pool.acquire()
    pool.close()
    assert pool.acquire() is None
    pool.release(frame)
    assert seen == [2]


def test_a_frame_for_which_there_is_no_memory_is_not_counted_as_lent(monkeypatch):
    def refuse(length):
        raise OSError(errno.ENOMEM, "no memory")

    pool = FramePool(100, 3)
    pool.release(pool.acquire())
    first = pool.acquire()
    with monkeypatch.context() as system:
        system.setattr(frame_memory, "reserve_pages", refuse)
        for _ in range(5):
            with pytest.raises(OSError, match="no memory"):
                pool.acquire()
            with pytest.raises(OSError, match="no memory"):
                pool.prepare(1)
            pool.check()
    assert (pool.frames_free, pool.memory.frames_made, pool.memory.frames_lent) == (2, 1, 1)
    frames = [first, pool.acquire(), pool.acquire()]
    assert pool.acquire() is None
    for frame in frames:
        pool.release(frame)
    pool.check()


def test_a_pool_prepares_no_more_frames_than_it_may_lend_and_lends_none():
    pool = FramePool(100, 3)
    frame = pool.acquire()
    pool.prepare(1000)
    assert (pool.frames_free, pool.memory.frames_made, pool.memory.frames_lent) == (2, 3, 1)
    pool.check()
    pool.release(frame)
    pool.close()
    pool.prepare(1000)
    assert pool.memory.frames_made == 3
