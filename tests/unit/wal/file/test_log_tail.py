"""Where records go and what is done ahead of them, with scripted background work."""

import asyncio
import errno

from headrace.errors import FencedOutError, StorageFullError, WalWriteError
from headrace.limits import KIB, MIB
from headrace.wal.config import WalConfig
from headrace.wal.contract import WalStatistics
from headrace.wal.file.log_tail import LogTail
from headrace.wal.file.segment_file import SegmentFile
from headrace.wal.file.segment_format import DATA_OFFSET, FileHead
from headrace.wal.file.space_wait import PAUSE_S
from headrace.wal.file.zero_steps import STEP_BYTES_MIN

CONFIG = WalConfig(
    frame_bytes_max=512,
    segment_file_bytes=64 * KIB,
    zero_step_bytes=8 * KIB,
    zero_ahead_bytes=16 * KIB,
    spare_files_max=2,
)


#: No work ahead but the next file, when it is needed.
LAZY = WalConfig(frame_bytes_max=512, segment_file_bytes=32 * KIB, zero_ahead_bytes=0)


class Files:
    directory = "/log"

    def create(self, head):
        return SegmentFile(head.number, head.epoch, 3, DATA_OFFSET)

    def zero(self, file, start, end):
        return None


class Work:
    def __init__(self):
        self.jobs = []

    def submit(self, fn, args, done):
        self.jobs.append((fn, args, done))

    def answer(self, error=None):
        fn, args, done = self.jobs.pop(0)
        if error is None:
            done(fn(*args), None)
        else:
            done(None, error)

    def run_all(self):
        while self.jobs:
            self.answer()


class Bench:
    def __init__(self, config=CONFIG):
        self.work = Work()
        self.progress = 0
        self.recycled = []
        self.statistics = WalStatistics()
        files = Files()
        self.tail = LogTail(
            files,
            self.work,
            config,
            SegmentFile(1, 1, 3, DATA_OFFSET),
            FileHead(bytes(16), 1, 1, 1, 1),
            files.create,
            self.recycle,
            self.on_progress,
            self.statistics,
        )

    def recycle(self, old, head):
        self.recycled.append((old.number, head.number))
        return SegmentFile(head.number, head.epoch, 3, old.zeroed_until)

    def on_progress(self):
        self.progress += 1

    @property
    def doing(self):
        return [(fn.__name__, *args[1:]) for fn, args, _ in self.work.jobs]

    def place(self, padded=4096):
        file = self.tail.place(padded)
        return None if file is None else (file.number, file.position - padded)


def test_records_lie_one_behind_the_other():
    bench = Bench(LAZY)
    assert [bench.place(), bench.place(8192), bench.place()] == [(1, 12288), (1, 16384), (1, 24576)]


def test_zeroing_goes_on_in_steps_until_it_is_far_enough_ahead():
    bench = Bench()
    bench.tail.start()
    assert bench.doing == [("zero", 12288, 20480)]
    bench.work.answer()
    assert bench.doing == [("zero", 20480, 28672)]
    bench.work.run_all()
    assert bench.tail.current.zeroed_until == 28672
    bench.place()
    assert bench.doing == [("zero", 28672, 36864)]


def test_steps_are_small_until_so_much_is_written_that_they_would_fall_behind():
    config = WalConfig(segment_file_bytes=64 * MIB, zero_step_bytes=4 * MIB, zero_ahead_bytes=16 * MIB)
    bench = Bench(config)

    def steps(count, written):
        """The sizes of so many steps, with records of so many bytes behind each beginning."""
        sizes = []
        while len(sizes) < count:
            if bench.doing and bench.doing[0][0] == "zero":
                _, begin, end = bench.doing[0]
                sizes.append(end - begin)
            bench.place(written)
            if bench.doing:
                bench.work.answer()
        return sizes

    bench.tail.start()
    while bench.doing:  # nothing is written yet
        assert [kind for kind, *_ in bench.doing] == ["zero"]
        bench.work.answer()
    assert bench.tail.current.zeroed_until == DATA_OFFSET + 16 * MIB
    assert set(steps(3, 4 * KIB)) == {STEP_BYTES_MIN}
    assert steps(6, 2 * MIB)[-1] == 4 * MIB


def test_a_record_never_overlaps_a_step_in_progress():
    bench = Bench()
    bench.tail.start()
    assert bench.place() is None
    bench.work.answer()
    assert bench.progress == 1
    assert bench.place() == (1, 12288)
    assert bench.place() == (1, 16384)
    assert bench.place() is None  # the second step begins at 20480
    bench.work.answer()
    assert bench.place() == (1, 20480)


def test_the_next_file_is_made_ready_when_a_quarter_of_this_one_is_full():
    bench = Bench()
    bench.tail.start()
    bench.work.run_all()
    for _ in range(4):
        assert ("create",) not in bench.doing
        assert bench.place() is not None
        while bench.doing and bench.doing != [("create",)]:
            bench.work.answer()
    assert bench.doing == [("create",)]
    bench.work.run_all()
    for _ in range(9):
        assert bench.place()[0] == 1
        bench.work.run_all()
    assert bench.place() == (2, 12288)


def test_a_record_waits_for_the_next_file_if_that_is_late():
    bench = Bench(LAZY)
    for _ in range(5):
        assert bench.place() is not None
    assert bench.place() is None
    assert bench.place() is None
    bench.work.run_all()
    assert bench.progress >= 1
    assert bench.place() == (2, 12288)


def test_spare_files_are_recycled_first_and_bounded():
    bench = Bench()
    assert bench.tail.spare_capacity() == 2
    old = SegmentFile(7, 1, -1, 64 * KIB)
    bench.tail.add_spare(old)
    assert bench.tail.spare_capacity() == 1
    bench.tail.start()
    while not bench.recycled:
        if bench.place() is None:
            bench.work.answer()
        else:
            bench.work.run_all()
    assert bench.recycled == [(7, 2)]
    assert bench.tail.spare_capacity() == 2


FULL = OSError(errno.ENOSPC, "full")


def fill_the_only_file(error):
    """A bench whose file is full and whose next one could not be made ahead of need."""
    config = WalConfig(
        frame_bytes_max=512, segment_file_bytes=32 * KIB, zero_ahead_bytes=8 * KIB, zero_step_bytes=32 * KIB
    )
    bench = Bench(config)
    bench.tail.start()
    bench.work.answer()  # zeroed entirely
    for _ in range(2):
        assert bench.place() is not None
    assert bench.doing == [("create",)]
    bench.work.answer(error)
    assert bench.tail.error is None
    for _ in range(3):
        assert bench.place() is not None
        assert bench.doing == []
    assert bench.place() is None
    assert bench.doing == [("create",)]
    bench.work.answer(error)
    assert bench.tail.needs_next(4096)
    return bench


def test_a_file_that_cannot_be_made_is_an_error_once_it_is_needed():
    bench = fill_the_only_file(FencedOutError("gone"))
    assert type(bench.tail.error) is FencedOutError
    assert bench.place() is None
    assert bench.doing == []


def test_any_other_error_is_typed_and_those_who_wait_are_told():
    bench = fill_the_only_file(MemoryError("no memory"))
    assert type(bench.tail.error) is WalWriteError
    assert bench.progress >= 2
    left = []
    bench.tail.switch_file(lambda: left.append(True))
    assert left == [True]


async def test_a_file_for_which_there_is_no_space_is_tried_again_after_a_pause():
    bench = fill_the_only_file(FULL)
    assert bench.tail.error is None
    assert bench.statistics.space_waiting == 1
    assert bench.place() is None
    assert bench.doing == []
    for pauses in (1, 2):
        await asyncio.sleep(PAUSE_S * (pauses + 0.5))
        assert bench.doing == [("create",)]
        bench.work.answer(FULL if pauses == 1 else None)
    bench.work.run_all()
    assert bench.place() == (4 + 1, 12288)  # each attempt has a number of its own
    assert (bench.statistics.space_waits, bench.statistics.space_waiting) == (1, 0)


async def test_a_truncated_file_ends_the_wait_for_space_at_once():
    bench = fill_the_only_file(FULL)
    bench.tail.add_spare(SegmentFile(7, 1, -1, 32 * KIB))
    bench.work.run_all()
    assert len(bench.recycled) == 1
    assert bench.place() is not None
    assert bench.statistics.space_waiting == 0


async def test_a_record_is_told_of_the_full_disk_when_nobody_is_to_wait_any_more():
    bench = fill_the_only_file(FULL)
    bench.tail.stop_waiting()
    assert bench.doing == [("create",)]
    bench.work.answer(FULL)
    assert type(bench.tail.error) is StorageFullError
    assert bench.place() is None
    assert bench.doing == []


def test_zeroing_that_fails_is_given_up_not_fatal():
    bench = Bench()
    bench.tail.start()
    bench.work.answer(OSError(errno.ENOSPC, "full"))
    assert bench.tail.error is None
    assert bench.doing == []
    assert bench.place() == (1, 12288)


def test_after_stop_nothing_begins():
    bench = Bench()
    bench.tail.start()
    bench.tail.stop()
    bench.work.answer()
    assert bench.doing == []
