"""Placing, writing together, answering in order: with scripted tail, writers and owner."""

import asyncio

import pytest

from headrace.errors import FencedOutError, StorageFullError, WalWriteError
from headrace.wal.contract import WalStatistics
from headrace.wal.file.group_commit import WRITE_BYTES_MAX, GroupCommit
from headrace.wal.file.segment_file import SegmentFile
from headrace.wal.file.segment_format import DATA_OFFSET
from headrace.wal.file.space_wait import PAUSE_S
from headrace.wal.frame_pool import FramePool
from headrace.wal.loop_writes import LoopWrites, LoopWritesConfig
from headrace.wal.record_format import decode_header


class Tail:
    """Gives room in ``current`` while ``room`` lasts."""

    def __init__(self, commit):
        self.current = SegmentFile(1, 1, 3, DATA_OFFSET)
        self.room = 1 << 40
        self.error = None
        self.commit = commit

    def place(self, padded):
        if padded > self.room:
            return None
        self.room -= padded
        self.current.position += padded
        return self.current

    def needs_next(self, padded):
        return padded > self.room

    def next_file(self):
        self.current = SegmentFile(self.current.number + 1, 1, 3, DATA_OFFSET)


class Writers:
    """Performs what it is given when the test says how the disk answers."""

    def __init__(self, files):
        self.files = files
        self.jobs = []
        self.functions = []

    def submit(self, fn, args, done):
        self.jobs.append((args[0], done))
        self.functions.append(fn)

    def answer(self, index=0, error=None, *, starved=False):
        batch, done = self.jobs.pop(index)
        self.files.outcome = error, starved
        done(self.functions.pop(index)(batch), None)


class Owner:
    held = True
    asked = 0

    def still_held(self):
        self.asked += 1
        if self.held is None:
            raise OSError(5, "broken")
        return self.held


class Files:
    directory = "/log"
    outcome = None, False

    def meanwhile(self):
        """What others do while the disk works."""

    def write_records(self, batch):
        self.meanwhile()
        batch[0].error, batch[0].starved = self.outcome


class Bench:
    def __init__(self, writers_max=2, capacity=100, loop_writes=None):
        self.files = files = Files()
        self.writers = Writers(files)
        self.owner = Owner()
        self.statistics = WalStatistics()
        self.closed = []
        self.pool = FramePool(capacity, 1000)
        self.answers = []
        self.commit = GroupCommit(
            files=files,
            writers=self.writers,
            writers_max=writers_max,
            owner=self.owner,
            container_epoch=5,
            log=9,
            next_sequence=11,
            statistics=self.statistics,
            on_file_written=lambda file: self.closed.append(file.number),
            loop_writes=loop_writes,
        )
        self.tail = Tail(self.commit)
        self.commit.attach(self.tail)

    def append(self, count=1):
        for _ in range(count):
            frame = self.pool.acquire()
            frame.length = self.pool.capacity
            self.commit.append(frame, self.done)
        self.commit.check()

    def done(self, frame, error):
        self.answers.append((frame.address, error and type(error).__name__))
        self.pool.release(frame)

    @property
    def in_the_air(self):
        return [[write.frame.address for write in batch] for batch, _ in self.writers.jobs]


@pytest.fixture
async def bench():
    return Bench()


async def test_a_frame_goes_at_once_while_a_writer_is_free_and_then_together_with_others(bench):
    bench.append(5)
    assert bench.in_the_air == [[11], [12]]
    bench.writers.answer()
    assert bench.in_the_air == [[12], [13, 14, 15]]
    assert bench.answers == [(11, None)]


async def test_answers_wait_for_earlier_frames(bench):
    bench.append(2)
    bench.writers.answer(1)
    assert bench.answers == []
    bench.writers.answer(0)
    assert bench.answers == [(11, None), (12, None)]
    assert bench.owner.asked == 2  # once behind each write


async def test_a_header_names_what_was_durable_when_it_was_handed_over(bench):
    bench.append(4)
    headers = [decode_header(batch[0].frame.buffer) for batch, _ in bench.writers.jobs]
    assert [(header.sequence, header.durable_sequence) for header in headers] == [(11, 10), (12, 10)]
    bench.writers.answer(0)
    batch, _ = bench.writers.jobs[-1]
    header = decode_header(batch[0].frame.buffer)
    # It was handed over before 11 was answered: the disk said so, but nobody looked at the owner record yet.
    assert (header.sequence, header.durable_sequence, header.file_first_sequence) == (13, 10, 11)
    assert (header.epoch, header.file_number, header.log) == (5, 1, 9)


async def test_full_writes_are_handed_over_ahead_of_a_free_writer_and_never_more_than_one_each():
    bench = Bench(writers_max=2, capacity=WRITE_BYTES_MAX // 2)
    bench.append(3)
    assert bench.in_the_air == [[11], [12]]
    bench.append(1)
    assert bench.in_the_air == [[11], [12], [13]]  # 14 may yet be joined by others
    bench.append(4)
    assert bench.in_the_air == [[11], [12], [13], [14]]
    while bench.writers.jobs:
        bench.writers.answer()
        bench.commit.check()
    assert bench.answers == [(address, None) for address in range(11, 19)]


async def test_what_is_written_together_is_bounded_in_bytes_and_in_one_file():
    bench = Bench(writers_max=1, capacity=300 << 10)
    bench.append(3)
    bench.tail.next_file()
    bench.append(3)
    sizes = []
    while bench.writers.jobs:
        batch, _ = bench.writers.jobs[0]
        assert len({write.file for write in batch}) == 1
        assert len(batch) == 1 or sum(write.padded for write in batch) <= WRITE_BYTES_MAX
        sizes.append(len(batch))
        bench.writers.answer()
    assert sizes == [1, 2, 3]
    assert bench.closed == [1]


async def test_a_file_is_done_with_when_all_its_records_are_answered(bench):
    bench.append(1)
    bench.tail.next_file()
    bench.append(1)
    bench.writers.answer(1)
    assert bench.closed == []
    bench.writers.answer(0)
    assert bench.closed == [1]


async def test_after_an_error_every_later_frame_gets_it_and_none_is_written(bench):
    bench.append(5)
    bench.writers.answer(0, WalWriteError("broken"))
    assert bench.answers == [(11, "WalWriteError")]
    assert bench.in_the_air == [[12]]
    bench.append(2)
    bench.writers.answer(0)
    await asyncio.sleep(0)
    assert bench.answers == [(address, "WalWriteError") for address in range(11, 18)]
    bench.append(1)
    assert bench.in_the_air == []
    await asyncio.sleep(0)
    assert bench.answers[-1] == (18, "WalWriteError")
    assert bench.statistics.frames_written == 0
    assert bench.commit.durable_sequence == 10


async def test_an_earlier_frame_is_acknowledged_though_a_later_one_failed(bench):
    bench.append(3)
    bench.writers.answer(1, StorageFullError("full"))
    bench.commit.check()  # 13 lies there though a writer is free
    assert bench.in_the_air == [[11]]
    bench.writers.answer(0)
    bench.writers.answer(0)
    assert bench.answers == [(11, None), (12, "StorageFullError"), (13, "StorageFullError")]


async def test_a_fenced_owner_acknowledges_nothing(bench):
    bench.append(3)
    bench.owner.held = False
    bench.writers.answer(0)
    bench.owner.held = True  # even if somebody put the old record back
    bench.writers.answer(0)
    assert bench.answers == [(address, "FencedOutError") for address in (11, 12, 13)]
    assert bench.writers.jobs == []  # 13 was not even tried
    assert isinstance(bench.commit.failure, FencedOutError)


async def test_a_successor_that_comes_while_the_disk_works_is_seen(bench):
    def come():
        bench.owner.held = False

    bench.files.meanwhile = come
    bench.append(1)
    assert bench.owner.held
    bench.writers.answer(0)  # it may have read the log before this write was in it
    assert bench.answers == [(11, "FencedOutError")]


async def test_what_was_durable_while_the_log_was_ours_is_acknowledged_and_nothing_later(bench):
    bench.append(2)
    bench.writers.answer(1)  # 12 is durable and the record named us, but 11 is still on its way
    bench.owner.held = False
    bench.writers.answer(0)
    assert bench.answers == [(11, "FencedOutError"), (12, "FencedOutError")]
    assert bench.writers.jobs == []


async def test_an_unreadable_owner_record_is_an_unknown_outcome(bench):
    bench.append(1)
    bench.owner.held = None
    bench.writers.answer(0)
    assert bench.answers == [(11, "WalWriteError")]


async def test_frames_wait_for_room_and_move_on_in_order(bench):
    bench.tail.room = 4096
    bench.append(4)
    assert bench.in_the_air == [[11]]
    bench.commit.on_tail_progress()
    assert bench.in_the_air == [[11]]
    bench.tail.room = 1 << 20
    bench.commit.on_tail_progress()
    bench.commit.check()
    assert bench.in_the_air == [[11], [12, 13, 14]]


async def test_frames_for_which_there_will_be_no_room_fail_in_order(bench):
    bench.tail.room = 4096
    bench.append(3)
    bench.tail.error = StorageFullError("full")
    bench.commit.on_tail_progress()
    await asyncio.sleep(0)
    assert bench.answers == []  # 11 is still in the air
    bench.writers.answer(0)
    assert bench.answers == [(11, None), (12, "StorageFullError"), (13, "StorageFullError")]


@pytest.mark.parametrize(
    ("held", "answer"),
    [(True, "WalWriteError"), (None, "WalWriteError"), (False, "FencedOutError")],
    ids=["the owner", "an owner that cannot read its record", "one whose successor swept the file away"],
)
async def test_who_can_make_no_next_file_says_why_or_that_it_was_fenced(bench, held, answer):
    bench.tail.room = 0
    bench.tail.error = WalWriteError("making the next log file failed: no such file")
    bench.owner.held = held
    bench.append(2)
    await asyncio.sleep(0)
    assert bench.answers == [(11, answer), (12, answer)]


async def test_a_write_that_finds_no_space_is_made_again_and_nothing_else_is_handed_over(bench):
    bench.append(4)
    bench.writers.answer(0, StorageFullError("full"), starved=True)
    assert bench.statistics.space_waiting == 1
    bench.writers.answer(0)
    bench.append(1)
    bench.commit.check()
    assert bench.in_the_air == []
    assert bench.answers == []
    await asyncio.sleep(PAUSE_S * 1.5)
    assert bench.in_the_air == [[11]]
    bench.commit.check()
    bench.writers.answer(0, StorageFullError("full"), starved=True)
    await asyncio.sleep(PAUSE_S * 2.5)
    assert bench.in_the_air == [[11]]
    bench.writers.answer(0)
    bench.commit.check()
    assert bench.in_the_air == [[13, 14, 15]]
    bench.writers.answer(0)
    assert bench.answers == [(address, None) for address in range(11, 16)]
    assert (bench.statistics.space_waits, bench.statistics.space_waiting) == (1, 0)


async def test_two_writes_that_find_no_space_are_both_made_again(bench):
    bench.append(3)
    bench.writers.answer(1, StorageFullError("full"), starved=True)
    bench.writers.answer(0, StorageFullError("full"), starved=True)
    await asyncio.sleep(PAUSE_S * 1.5)
    assert sorted(bench.in_the_air) == [[11], [12]]
    while bench.writers.jobs:
        bench.writers.answer()
        bench.commit.check()
    assert bench.answers == [(11, None), (12, None), (13, None)]


async def test_whoever_waits_for_space_is_told_when_nobody_is_to_wait_any_more(bench):
    bench.append(3)
    bench.writers.answer(0, StorageFullError("full"), starved=True)
    bench.commit.stop_waiting()
    assert bench.answers[0] == (11, "StorageFullError")
    bench.writers.answer(0, StorageFullError("full"), starved=True)
    assert bench.answers == [(address, "StorageFullError") for address in (11, 12, 13)]
    assert bench.writers.jobs == []
    assert bench.statistics.space_waiting == 0


async def test_an_owner_that_waits_for_space_notices_its_successor(bench):
    bench.append(3)
    bench.writers.answer(0, StorageFullError("full"), starved=True)
    bench.owner.held = False
    bench.writers.answer(0)
    await asyncio.sleep(PAUSE_S * 1.5)
    assert bench.answers == [(address, "FencedOutError") for address in (11, 12, 13)]
    assert bench.writers.jobs == []


async def test_a_failure_ends_the_wait_for_space(bench):
    bench.append(4)
    bench.writers.answer(1, StorageFullError("full"), starved=True)
    bench.writers.answer(0, WalWriteError("broken"))
    assert bench.answers == [(address, "WalWriteError") for address in (11, 12, 13, 14)]
    bench.commit.check()
    await asyncio.sleep(PAUSE_S * 1.5)
    assert bench.writers.jobs == []


async def test_a_callback_that_raises_does_not_keep_others_from_their_answers(bench):
    frame = bench.pool.acquire()

    def fail(_frame, _error):
        raise ZeroDivisionError

    bench.commit.append(frame, fail)
    bench.append(1)
    bench.writers.answer(1)
    with pytest.raises(ZeroDivisionError):
        bench.writers.answer(0)
    await asyncio.sleep(0)
    assert bench.answers == [(12, None)]


@pytest.mark.parametrize("held", [True, False], ids=["nobody waits any more", "fenced"])
async def test_a_callback_that_raises_while_writes_find_no_space_leaves_none_of_them_behind(held):
    raised = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: raised.append(context["exception"]))
    loop_writes = LoopWrites(LoopWritesConfig(log_write_bytes_max=0))
    bench = Bench(writers_max=3, loop_writes=loop_writes)
    frame = bench.pool.acquire()

    def fail(_frame, _error):
        raise ZeroDivisionError

    bench.commit.append(frame, fail)
    bench.append(2)
    for _ in range(3):
        bench.writers.answer(0, StorageFullError("full"), starved=True)
    if held:
        with pytest.raises(ZeroDivisionError):
            bench.commit.stop_waiting()
    else:
        bench.owner.held = False
        await asyncio.sleep(PAUSE_S * 1.5)
        assert [type(error) for error in raised] == [ZeroDivisionError]
    await asyncio.sleep(0)
    answer = "StorageFullError" if held else "FencedOutError"
    assert bench.answers == [(12, answer), (13, answer)]
    assert loop_writes.in_flight == 0
    async with asyncio.timeout(60):
        await bench.commit.wait_idle()
    bench.commit.check()


async def test_a_mistake_in_a_writer_fails_everything_but_frees_no_frame_that_another_writer_has(bench):
    bench.append(5)
    _, done = bench.writers.jobs.pop(0)
    del bench.writers.functions[0]
    done(None, TypeError("a bug"))
    assert bench.answers == [(11, "WalWriteError")]
    assert bench.in_the_air == [[12]]
    bench.writers.answer(0)
    assert bench.answers == [(address, "WalWriteError") for address in range(11, 16)]
    bench.commit.check()


async def test_wait_idle_returns_when_all_are_answered(bench):
    bench.append(3)
    waiting = asyncio.ensure_future(bench.commit.wait_idle())
    await asyncio.sleep(0)
    while bench.writers.jobs:
        assert not waiting.done()
        bench.writers.answer()
    await waiting


@pytest.mark.slow
async def test_ten_thousand_frames_are_counted(bench):
    for _ in range(100):
        bench.append(100)
        while bench.writers.jobs:
            bench.writers.answer()
    assert [address for address, _ in bench.answers] == list(range(11, 10_011))
    assert bench.statistics.frames_written == 10_000
    assert bench.statistics.bytes_written == 10_000 * 100


# ---- without a thread


@pytest.fixture
async def quick():
    """The bench of a server whose disk is quick."""
    return Bench(loop_writes=LoopWrites(LoopWritesConfig(mean_s_max=1.0)))


async def test_a_small_write_of_a_quick_disk_is_made_at_once_and_answered_later(quick):
    written = []
    quick.files.meanwhile = lambda: written.append(True)
    quick.append()
    assert written == [True]
    assert quick.answers == []
    await asyncio.sleep(0)
    assert quick.answers == [(11, None)]
    assert quick.in_the_air == []
    assert (quick.statistics.disk_writes, quick.statistics.loop_writes) == (1, 1)


async def test_what_comes_before_the_answer_goes_to_threads_and_is_answered_behind_it(quick):
    quick.append(2)
    assert quick.in_the_air == [[12]]
    quick.writers.answer()
    assert quick.answers == []
    await asyncio.sleep(0)
    assert quick.answers == [(11, None), (12, None)]
    assert (quick.statistics.disk_writes, quick.statistics.loop_writes) == (2, 1)


async def test_nothing_is_written_here_while_a_thread_writes(quick):
    quick.append(3)
    await asyncio.sleep(0)
    assert quick.in_the_air == [[12], [13]]


async def test_large_writes_and_those_of_a_slow_disk_go_to_threads():
    loop_writes = LoopWrites(LoopWritesConfig())
    bench = Bench(capacity=64 << 10, loop_writes=loop_writes)
    bench.append()
    assert bench.in_the_air == [[11]]
    bench = Bench(loop_writes=loop_writes)
    loop_writes.add(1.0, bench.commit._now())
    bench.append()
    assert bench.in_the_air == [[11]]


async def test_a_stall_is_noticed():
    loop_writes = LoopWrites(LoopWritesConfig())
    bench = Bench(loop_writes=loop_writes)
    clock = iter([0.0, 5.0, 6.0])  # appended, handed over, written
    bench.commit._now = lambda: next(clock, 7.0)
    bench.append()
    found = loop_writes.statistics()
    assert (found.writes, found.write_seconds_max, found.pauses) == (1, 1.0, 1)
    await asyncio.sleep(0)
    bench.append()
    assert bench.in_the_air == [[12]]


@pytest.mark.parametrize("error", [WalWriteError("broken"), StorageFullError("full")], ids=type)
async def test_an_error_of_a_write_made_here_is_the_end(quick, error):
    quick.files.outcome = error, False
    quick.append(2)
    await asyncio.sleep(0)
    assert quick.answers == [(11, type(error).__name__)]
    quick.writers.answer(0, error)
    assert quick.answers == [(11, type(error).__name__), (12, type(error).__name__)]
    quick.append()
    await asyncio.sleep(0)
    assert quick.answers[-1] == (13, type(error).__name__)


@pytest.mark.parametrize("error", [None, WalWriteError("broken")], ids=["durable", "failed"])
async def test_of_the_writes_made_here_those_count_that_were_durable_and_none_before_its_end(quick, error):
    quick.files.outcome = error, False
    quick.append()
    assert (quick.statistics.disk_writes, quick.statistics.loop_writes) == (0, 0)
    await asyncio.sleep(0)
    durable = error is None
    assert (quick.statistics.disk_writes, quick.statistics.loop_writes) == (durable, durable)


async def test_a_fenced_owner_that_writes_here_acknowledges_nothing(quick):
    def come():
        quick.owner.held = False

    quick.files.meanwhile = come
    quick.append()
    await asyncio.sleep(0)
    assert quick.answers == [(11, "FencedOutError")]


async def test_a_write_made_here_that_finds_no_space_is_made_again_by_a_thread(quick):
    quick.files.outcome = StorageFullError("full"), True
    quick.append()
    await asyncio.sleep(0)
    assert quick.answers == []
    quick.append()
    assert quick.in_the_air == []
    await asyncio.sleep(PAUSE_S * 1.5)
    assert quick.in_the_air == [[11]]
    quick.writers.answer()
    await asyncio.sleep(0)
    assert quick.answers == [(11, None), (12, None)]


async def test_logs_count_their_writes_together_whatever_becomes_of_them():
    loop_writes = LoopWrites(LoopWritesConfig(mean_s_max=1.0))
    one, other = Bench(loop_writes=loop_writes), Bench(loop_writes=loop_writes)
    one.append(2)
    other.append(2)
    assert loop_writes.in_flight == 2 + 2
    await asyncio.sleep(0)
    assert loop_writes.in_flight == 1 + 1
    one.writers.answer(0, WalWriteError("broken"))
    assert loop_writes.in_flight == 0 + 1
    other.writers.answer(0, StorageFullError("full"), starved=True)
    assert loop_writes.in_flight == 0 + 1
    other.commit.stop_waiting()
    assert loop_writes.in_flight == 0
    one.commit.check()
    other.commit.check()


async def test_a_mistake_of_ours_in_a_write_made_here_is_told_to_the_frame(quick):
    def fail():
        raise RuntimeError("a mistake")

    quick.files.meanwhile = fail
    quick.append()
    await asyncio.sleep(0)
    assert quick.answers == [(11, "WalWriteError")]
