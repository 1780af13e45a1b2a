"""From a filled frame to its acknowledgement: placed, written in a thread, answered in order, never by an
owner that was fenced.

Frames are handed to the writers as they come; which of them are written at the same time, and how full
they are, is the caller's rhythm. Answers wait for all earlier frames. Before a batch of answers is given
the owner record is read once; see ``docs/formats/wal-owner.md``.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from headrace.errors import FencedOutError, HeadraceError, WalWriteError
from headrace.runtime.blocking import BlockingWork
from headrace.wal.contract import WalStatistics
from headrace.wal.file.log_tail import LogTail
from headrace.wal.file.owner_record import OwnerFile
from headrace.wal.file.segment_files import SegmentFile, SegmentFiles
from headrace.wal.frame_pool import Done, Frame
from headrace.wal.record_format import KIND_CLOSE, KIND_DATA, encode_header, padded_bytes


class GroupCommit:
    """The frames of one owner that are on their way. Used on one loop."""

    def __init__(
        self,
        *,
        files: SegmentFiles,
        writers: BlockingWork,
        owner: OwnerFile,
        epoch: int,
        log: int,
        next_sequence: int,
        statistics: WalStatistics,
        on_file_written: Callable[[SegmentFile], None],
    ) -> None:
        self.next_sequence = next_sequence
        self.durable_sequence = next_sequence - 1
        self.failure: Exception | None = None
        """The first error: every later frame fails with it."""
        self.used_files: list[SegmentFile] = []
        """This owner's files that hold records, oldest first."""
        self._on_file_written = on_file_written
        self._writing: deque[SegmentFile] = deque()
        self._tail: LogTail | None = None
        self._files = files
        self._writers = writers
        self._owner = owner
        self._epoch = epoch
        self._log = log
        self._statistics = statistics
        self._in_flight: deque[Frame] = deque()
        self._waiting: deque[Frame] = deque()
        self._idle: asyncio.Future[None] | None = None
        self._loop = asyncio.get_running_loop()

    def attach(self, tail: LogTail) -> None:
        """Say where records go; a second step because the tail reports its progress here."""
        self._tail = tail

    @property
    def frames_pending(self) -> int:
        """Frames without an answer."""
        return len(self._in_flight) + len(self._waiting)

    def append(self, frame: Frame, done: Done) -> None:
        """Write ``frame`` and answer later."""
        frame.reset()
        frame.done = done
        frame.address = self.next_sequence
        frame.padded = padded_bytes(frame.length)
        frame.started_at = self._loop.time()
        self.next_sequence += 1
        if self.failure is not None:
            self._refuse(frame)
        elif self._waiting or not self._try_write(frame, KIND_DATA):
            self._waiting.append(frame)
            self._check_tail()

    async def write_close_mark(self, frame: Frame) -> None:
        """Vouch for the last records, so that a later flip of their bits is told from a torn tail.

        Everything has been answered; failing does no harm. The mark takes no sequence.
        """
        assert not self._in_flight
        assert not self._waiting
        if self.failure is not None or self._tail is None or not self.used_files:
            return
        frame.length = 0
        frame.address = self.next_sequence
        frame.padded = padded_bytes(0)
        if not self._tail.needs_next(frame.padded) and self._place(frame, KIND_CLOSE):
            await self._writers.run(self._files.write_record, frame)

    async def wait_idle(self) -> None:
        """Wait until every frame has its answer."""
        while self._in_flight or self._waiting:
            self._idle = self._loop.create_future()
            await self._idle

    def on_tail_progress(self) -> None:
        """Room was made, or there will be none: move on the frames that wait."""
        while self._waiting and self.failure is None and self._try_write(self._waiting[0], KIND_DATA):
            self._waiting.popleft()
        if self._waiting:
            self._check_tail()

    # ---- handing over

    def _try_write(self, frame: Frame, kind: int) -> bool:
        if not self._place(frame, kind):
            return False
        self._in_flight.append(frame)
        self._writers.submit(self._files.write_record, (frame,), self._on_written)
        return True

    def _place(self, frame: Frame, kind: int) -> bool:
        assert self._tail is not None
        file = self._tail.place(frame.padded)
        if file is None:
            return False
        frame.file = file
        frame.offset = file.position - frame.padded
        if file.first_sequence == 0:
            file.first_sequence = frame.address
            self.used_files.append(file)
            self._writing.append(file)
        encode_header(
            frame.buffer,
            kind=kind,
            length=frame.length,
            epoch=self._epoch,
            file_number=file.number,
            sequence=frame.address,
            durable_sequence=self.durable_sequence,
            file_first_sequence=file.first_sequence,
            log=self._log,
        )
        return True

    def _check_tail(self) -> None:
        """Fail if the frame at the head of those waiting waits for a file that will not come."""
        assert self._tail is not None
        error = self._tail.error
        if error is not None and self._waiting and self._tail.needs_next(self._waiting[0].padded):
            self._refuse_waiting(error)

    def _refuse_waiting(self, error: Exception) -> None:
        while self._waiting:
            frame = self._waiting.popleft()
            frame.error = error
            self._refuse(frame)

    def _refuse(self, frame: Frame) -> None:
        frame.finished = True
        self._in_flight.append(frame)
        self._loop.call_soon(self._answer)

    # ---- answering

    def _on_written(self, frame: Frame | None, error: BaseException | None) -> None:
        if frame is None:
            # Not an answer of the disk but a mistake of ours: nothing in the air can be told from another.
            assert error is not None
            for pending in self._in_flight:
                pending.error = pending.error or WalWriteError(f"the log writer failed: {error!r}")
                pending.finished = True
        else:
            frame.finished = True
        self._answer()

    def _answer(self) -> None:
        """Answer the finished frames at the head, in order."""
        in_flight = self._in_flight
        checked = False
        while in_flight and in_flight[0].finished:
            frame = in_flight.popleft()
            if self.failure is None:
                self.failure = frame.error
            if self.failure is None and not checked:
                self.failure = self._find_fence()
                checked = True
            if self.failure is None:
                self._count(frame)
            done = frame.done
            frame.done = None
            assert done is not None
            try:
                done(frame, self.failure)
            except BaseException:
                self._loop.call_soon(self._answer)  # the others still get theirs
                raise
            # ``done`` runs on this loop without waiting, so the check above holds for the whole batch.
        while len(self._writing) > 1 and self._writing[1].first_sequence <= self.durable_sequence + 1:
            self._on_file_written(self._writing.popleft())
        if self.failure is not None and self._waiting:
            self._refuse_waiting(self.failure)
        if self._idle is not None and not in_flight and not self._waiting:
            if not self._idle.done():
                self._idle.set_result(None)
            self._idle = None

    def _find_fence(self) -> HeadraceError | None:
        try:
            held = self._owner.still_held()
        except OSError as error:
            return WalWriteError(f"the owner record cannot be read: {error}")
        return None if held else FencedOutError("a newer owner has taken the log")

    def _count(self, frame: Frame) -> None:
        self.durable_sequence = frame.address
        statistics = self._statistics
        seconds = self._loop.time() - frame.started_at
        statistics.frames_written += 1
        statistics.bytes_written += frame.length
        statistics.write_seconds_last = seconds
        statistics.write_seconds_total += seconds
        statistics.log_bytes += frame.padded

    def check(self) -> None:
        """Assert the invariants."""
        assert self.durable_sequence < self.next_sequence
        addresses = [frame.address for frame in (*self._in_flight, *self._waiting)]
        assert addresses == sorted(set(addresses))
        assert not addresses or addresses[0] > self.durable_sequence
        assert all(frame.done is not None for frame in (*self._in_flight, *self._waiting))
