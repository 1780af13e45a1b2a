"""From a filled frame to its acknowledgement: placed, written, answered in order, and by an owner that is
not fenced.

Writes are made by threads; a small one on a quick disk by the loop itself, see ``loop_writes``.

A frame is written as soon as a writer is free. Frames that come while all writers are busy and lie next
to each other on disk are written together, by one call: the busier the log, the larger its writes. Once they
fill a whole write they are handed over although no writer is free, so that the next one to finish goes on at
once instead of waiting for the loop.
Answers wait for all earlier frames. After each write its thread reads the owner record once; see
``docs/formats/wal-owner.md``.

    append ─▶ waiting (not placed) ─▶ ready (no writer free) ─▶ handed over ─▶ finished ─▶ answered
              └────────────────────── all of them in ``pending``, in order ───────────────┘

A write that finds the disk full is repeated, the same bytes at the same offset, until there is space;
nothing else is handed over meanwhile. Any other error of a write is the end: only recovery knows then what is
durable.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Final

from headrace.errors import FencedOutError, HeadraceError, StorageFullError, WalWriteError
from headrace.limits import MIB
from headrace.runtime.blocking import BlockingWork
from headrace.runtime.clock import stopwatch
from headrace.runtime.latency import LATENCY_EDGES_S
from headrace.wal.contract import WalStatistics
from headrace.wal.file.frame_write import FrameWrite
from headrace.wal.file.log_tail import LogTail
from headrace.wal.file.owner_record import OwnerFile
from headrace.wal.file.segment_file import SegmentFile
from headrace.wal.file.segment_files import SegmentFiles
from headrace.wal.file.space_wait import SpaceWait
from headrace.wal.frame import Done, Frame
from headrace.wal.loop_writes import LoopWrites
from headrace.wal.record_format import KIND_CLOSE, KIND_DATA, encode_header

#: Frames are written together up to this size. Larger writes keep one writer busy while the other one idles.
WRITE_BYTES_MAX: Final = 1 * MIB
WRITE_FRAMES_MAX: Final = 64


class GroupCommit:
    """The frames of one owner in flight. Used on one loop."""

    def __init__(
        self,
        *,
        files: SegmentFiles,
        writers: BlockingWork,
        writers_max: int,
        owner: OwnerFile,
        container_epoch: int,
        log: int,
        next_sequence: int,
        statistics: WalStatistics,
        on_file_written: Callable[[SegmentFile], None],
        loop_writes: LoopWrites | None = None,
    ) -> None:
        self.next_sequence = next_sequence
        self.durable_sequence = next_sequence - 1
        self.failure: Exception | None = None
        """The first error: every later frame fails with it."""
        self.used_files: list[SegmentFile] = []
        """This owner's files that hold records, oldest first."""
        self._on_file_written = on_file_written
        self._open_files: deque[SegmentFile] = deque()
        self._tail: LogTail | None = None
        self._files = files
        self._writers = writers
        self._writers_max = writers_max
        self._writes = 0
        self._loop_writes = loop_writes
        self._owner = owner
        self._container_epoch = container_epoch
        self._log = log
        self._statistics = statistics
        self._pending: deque[FrameWrite] = deque()
        self._waiting: deque[FrameWrite] = deque()
        self._ready: deque[FrameWrite] = deque()
        self._ready_bytes = 0
        self._starved: list[list[FrameWrite]] = []
        self._space = SpaceWait(files.directory, self._write_starved, statistics)
        self._on_idle: Callable[[], None] | None = None
        self._idle: asyncio.Future[None] | None = None
        self._loop = asyncio.get_running_loop()
        self._now = stopwatch(self._loop)

    def attach(self, tail: LogTail, on_idle: Callable[[], None] | None = None) -> None:
        """Say where records go; a second step because the tail reports its progress here.

        ``on_idle`` is called whenever every frame has its answer.
        """
        self._tail = tail
        self._on_idle = on_idle

    @property
    def frames_pending(self) -> int:
        """Frames without an answer."""
        return len(self._pending)

    def append(self, frame: Frame, done: Done) -> None:
        """Write ``frame`` and answer later."""
        frame.done = done
        frame.address = self.next_sequence
        frame.started_at = self._now()
        write = FrameWrite(frame)
        self.next_sequence += 1
        self._pending.append(write)
        if self.failure is not None:
            write.finished = True
            self._loop.call_soon(self._answer)
        elif self._waiting or not self._place(write):
            self._waiting.append(write)
            self._check_tail()
        else:
            self._ready.append(write)
            self._ready_bytes += write.padded
            if self._can_write():
                self._write_ready()

    async def write_close_mark(self, frame: Frame) -> bool:
        """Mark the last records as durable, so that damage to them later is not taken for a torn tail.

        Everything has been answered; failing does no harm. The mark takes no sequence. Returns whether it is
        durable.
        """
        assert not self._pending
        if self.failure is not None or self._tail is None or not self.used_files:
            return False
        frame.length = 0
        frame.address = self.next_sequence
        mark = FrameWrite(frame)
        if not self._tail.needs_next(mark.padded) and self._place(mark):
            self._encode(mark, KIND_CLOSE)
            try:
                await self._writers.run(self._files.write_records, [mark])
            except OSError:  # no thread can be started: nothing was written
                return False
            return mark.error is None
        return False

    async def wait_idle(self) -> None:
        """Wait until every frame has its answer. A full disk may keep them waiting: see ``stop_waiting``."""
        while self._pending:
            if self._idle is None:
                self._idle = self._loop.create_future()
            await asyncio.shield(self._idle)

    def stop_waiting(self) -> None:
        """Frames that find no space are answered with StorageFullError from now on."""
        self._space.give_up()
        self._end_starved()

    def on_tail_progress(self) -> None:
        """There may be space for frames that wait, or there will be none: place or fail them."""
        while self._waiting and self.failure is None and self._place(self._waiting[0]):
            write = self._waiting.popleft()
            self._ready.append(write)
            self._ready_bytes += write.padded
        while self._can_write():
            self._write_ready()
        if self._waiting:
            self._check_tail()

    # ---- handing over

    def _place(self, write: FrameWrite) -> bool:
        assert self._tail is not None
        file = self._tail.place(write.padded)
        if file is None:
            return False
        write.file = file
        write.offset = file.position - write.padded
        if file.first_sequence == 0:
            file.first_sequence = write.frame.address
            self.used_files.append(file)
            self._open_files.append(file)
        return True

    def _can_write(self) -> bool:
        """Say whether frames are to be handed over now; waiting longer would make no larger write."""
        writes_max = self._writers_max if self._ready_bytes < WRITE_BYTES_MAX else 2 * self._writers_max
        return self._writes < writes_max and bool(self._ready) and not self._starved

    def _write_ready(self) -> None:
        """Hand the oldest ready frame to a writer, with those right behind it."""
        ready = self._ready
        first = ready.popleft()
        batch = [first]
        size = first.padded
        while (
            ready
            and ready[0].file is first.file
            and size + ready[0].padded <= WRITE_BYTES_MAX
            and len(batch) < WRITE_FRAMES_MAX
        ):
            size += ready[0].padded
            batch.append(ready.popleft())
        for write in batch:
            self._encode(write, KIND_DATA)
        self._ready_bytes -= size
        self._count_writes(1)
        first.handed_at = self._now()
        here = self._loop_writes
        if here is not None and self._writes == 1 and here.allows(size, first.handed_at):
            self._write_here(batch, here)
        else:
            self._writers.submit(self._write, (batch,), partial(self._on_written, batch))

    def _count_writes(self, more: int) -> None:
        self._writes += more
        if self._loop_writes is not None:
            self._loop_writes.in_flight += more

    def _write_here(self, batch: list[FrameWrite], loop_writes: LoopWrites) -> None:
        """Make a batch durable on the loop; it is answered later, as those of threads are."""
        error: Exception | None = None
        try:
            self._write(batch)
        except Exception as raised:  # noqa: BLE001 - as in a thread
            error = raised
        now = self._now()
        loop_writes.add(now - batch[0].handed_at, now)
        self._loop.call_soon(self._on_written_here, batch, error)

    def _write(self, batch: list[FrameWrite]) -> None:
        """Make a batch durable, then check the fence. Runs in a writer thread or on the loop.

        A successor reads the log after it has published its own container epoch. So it finds what was durable
        while this owner's record was in force; anything later is not acknowledged here. After a write in a
        thread the loop does not look: a read would release the interpreter to other threads.
        """
        self._files.write_records(batch)
        if batch[0].error is None:
            batch[0].error = self.find_fence()

    def _encode(self, write: FrameWrite, kind: int) -> None:
        file, frame = write.file, write.frame
        assert file is not None
        encode_header(
            frame.buffer,
            kind=kind,
            length=frame.length,
            epoch=self._container_epoch,
            file_number=file.number,
            sequence=frame.address,
            durable_sequence=self.durable_sequence,
            file_first_sequence=file.first_sequence,
            log=self._log,
        )

    def _check_tail(self) -> None:
        """Fail if the frame at the head of those waiting waits for a file that will not come."""
        assert self._tail is not None
        if not self._waiting or not self._tail.needs_next(self._waiting[0].padded):
            return
        error: Exception | None = self._tail.error
        if error is not None or self._statistics.space_waiting:
            fence = self.find_fence()
            if error is None or isinstance(fence, FencedOutError):  # a successor may have removed the file
                error = fence
        if error is not None:
            self._waiting[0].error = error
            while self._waiting:
                self._waiting.popleft().finished = True
            self._loop.call_soon(self._answer)

    # ---- answering

    def _on_written(self, batch: list[FrameWrite], _: object, error: BaseException | None) -> None:
        """A writer is done with ``batch``. Until then its frames belong to it, whatever fails elsewhere."""
        first = batch[0]
        if error is not None:  # not an answer of the disk: there is no thread, or a bug
            first.error = WalWriteError(f"the log writer failed: {error!r}")
            first.starved = False
        if first.starved and self._wait_for_space(batch):
            return
        self._count_writes(-1)
        for write in batch:
            write.finished = True
        if first.error is None:
            self._count_write(first)
            while self._can_write():
                self._write_ready()
        self._answer()

    def _on_written_here(self, batch: list[FrameWrite], error: Exception | None) -> None:
        """As :meth:`_on_written`, which counts a write that was durable: so does this, and no other."""
        if error is None and batch[0].error is None:
            self._statistics.loop_writes += 1
        self._on_written(batch, None, error)

    def _answer(self) -> None:
        """Answer the finished frames at the head, in order."""
        pending = self._pending
        statistics, now = self._statistics, self._now()
        while pending and pending[0].finished:
            write = pending.popleft()
            frame = write.frame
            if self.failure is None and write.error is not None:
                self._fail(write.error)
            if self.failure is None:
                self.durable_sequence = frame.address
                statistics.log_bytes += write.padded
                statistics.count_frame(frame.length, now - frame.started_at)
            done = frame.done
            frame.done = None
            assert done is not None
            try:
                done(frame, self.failure)
            except BaseException:
                self._loop.call_soon(self._answer)  # the next ones are still answered
                raise
        while len(self._open_files) > 1 and self._open_files[1].first_sequence <= self.durable_sequence + 1:
            self._on_file_written(self._open_files.popleft())
        if self._on_idle is not None and not pending:
            self._on_idle()
        if self._idle is not None and not pending:
            self._idle.set_result(None)
            self._idle = None

    def _fail(self, error: Exception) -> None:
        self.failure = error
        self._drop_unwritten()

    def _drop_unwritten(self) -> None:
        """Drop what no writer has; only answers of earlier frames are waited for."""
        for writes in (*self._starved, self._ready, self._waiting):
            for write in writes:
                write.finished = True
        self._count_writes(-len(self._starved))
        self._starved.clear()
        self._ready.clear()
        self._ready_bytes = 0
        self._waiting.clear()
        self._space.cancel()

    # ---- on a full disk

    def _wait_for_space(self, batch: list[FrameWrite]) -> bool:
        """Keep a write that found no space, to make it again; return False if it has failed for good."""
        error = batch[0].error
        assert isinstance(error, StorageFullError)
        if self.failure is not None or not self._space.begin(error):
            return False
        self._starved.append(batch)
        return True

    def _write_starved(self) -> None:
        """Repeat the writes that found no space, unless a newer owner has the log by now."""
        fence = self.find_fence()
        if fence is not None:
            for batch in self._starved:
                batch[0].error = fence
                batch[0].starved = False
            self._end_starved()
            return
        starved, self._starved = self._starved, []
        for batch in starved:
            self._writers.submit(self._write, (batch,), partial(self._on_written, batch))

    def _end_starved(self) -> None:
        """Answer the writes that found no space, each one even if a callback raises in between.

        They are taken from the list one by one, so that a failure of the first finds the rest in it.
        """
        raised: BaseException | None = None
        while self._starved:
            try:
                self._on_written(self._starved.pop(0), None, None)
            except BaseException as error:  # noqa: BLE001 - raised below
                raised = raised or error
        if raised is not None:
            raise raised

    def find_fence(self) -> HeadraceError | None:
        """Return why nothing found now proves anything: a newer owner has the log, or that is unknown."""
        try:
            held = self._owner.still_held()
        except OSError as error:
            return WalWriteError(f"the owner record cannot be read: {error}")
        return None if held else FencedOutError("a newer owner has taken the log")

    def _count_write(self, first: FrameWrite) -> None:
        statistics = self._statistics
        seconds = self._now() - first.handed_at
        statistics.disk_writes += 1
        statistics.disk_seconds_total += seconds
        statistics.disk_by_bucket[bisect_left(LATENCY_EDGES_S, seconds)] += 1
        if not self._starved:
            self._space.end()

    def fill_statistics(self, statistics: WalStatistics) -> None:
        """Add the gauges of now."""
        statistics.frames_in_flight = len(self._pending)
        statistics.frames_queued = len(self._waiting) + len(self._ready)
        statistics.bytes_in_flight = sum(write.frame.length for write in self._pending)

    def check(self) -> None:
        """Assert the invariants."""
        assert self.durable_sequence < self.next_sequence
        addresses = [write.frame.address for write in self._pending]
        assert addresses == list(range(self.next_sequence - len(addresses), self.next_sequence))
        assert all(write.frame.done is not None for write in self._pending)
        assert 0 <= self._writes <= 2 * self._writers_max
        assert self._loop_writes is None or self._loop_writes.in_flight >= self._writes
        assert not self._ready or self._writes >= self._writers_max or self._is_blocked()
        assert self._ready_bytes == sum(write.padded for write in self._ready)
        assert [w for w in self._pending if w in self._ready or w in self._waiting] == [
            *self._ready,
            *self._waiting,
        ]

    def _is_blocked(self) -> bool:
        """Whether frames may be ready although a writer is free: writes wait for space or are repeated after
        it, or a later one has failed and an earlier one has not ended yet.
        """
        failed = any(write.finished and write.error is not None for write in self._pending)
        return failed or bool(self._starved) or self._space.waiting
