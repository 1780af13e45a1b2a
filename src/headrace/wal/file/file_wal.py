"""The write-ahead log on local files: one directory per log.

This is the driver. It owns threads and descriptors and the order of steps; what bytes mean is decided in
``recovery_plan``, which owner may acknowledge in ``owner_record``, what is written when in ``group_commit``
and ``log_tail``. Addresses of this log are record sequences.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable, Iterator
from functools import partial
from typing import Final, TypeVar

from headrace.errors import (
    ClosedError,
    DataCorruptionError,
    DirectoryLockedError,
    FencedOutError,
    HeadraceError,
    WalWriteError,
)
from headrace.runtime.blocking import SystemThreads, Threads
from headrace.runtime.clock import Clock, SystemClock
from headrace.runtime.entropy import Entropy, SystemEntropy
from headrace.runtime.filesystem import Filesystem, OsFilesystem
from headrace.runtime.supervisor import Supervisor
from headrace.wal.config import WalConfig
from headrace.wal.contract import WalFrame, WalRecord, WalStatistics
from headrace.wal.file.group_commit import GroupCommit
from headrace.wal.file.last_steps import LastSteps
from headrace.wal.file.log_copy import copy_log
from headrace.wal.file.log_tail import LogTail
from headrace.wal.file.owner_format import OwnerRecord
from headrace.wal.file.owner_record import OwnerFile
from headrace.wal.file.owner_wait import run_when_unlocked
from headrace.wal.file.recovery_plan import LogExtent, RecordCursor, RecoveredLog, recover_log
from headrace.wal.file.segment_file import SegmentFile
from headrace.wal.file.segment_files import FileReader, SegmentFiles, translate_error
from headrace.wal.file.segment_format import DATA_OFFSET, FileHead, short_log_id
from headrace.wal.file.truncation import Truncation
from headrace.wal.frame_memory import FrameMemory
from headrace.wal.frame_pool import FrameLender, FramePool
from headrace.wal.loop_writes import LoopWrites

T = TypeVar("T")

#: An older owner may recycle truncated files while the log is being read; then it is read again.
_RECOVERY_ATTEMPTS: Final = 3
#: A log that is idle for so long writes a durable mark: no later record proves its last ones durable.
DURABLE_MARK_AFTER_S: Final = 1.0


class FileWal(FrameLender):
    """A ``Wal`` in ``directory``, which is on a file system local to this machine.

    ``frames``: memory shared with other logs of this loop. ``loop_writes``: shared with those on the same
    disk; None: all writes are made by threads.
    """

    def __init__(
        self,
        directory: str,
        config: WalConfig | None = None,
        *,
        filesystem: Filesystem | None = None,
        clock: Clock | None = None,
        entropy: Entropy | None = None,
        threads: Threads | None = None,
        frames: FrameMemory | None = None,
        loop_writes: LoopWrites | None = None,
    ) -> None:
        self._directory = directory
        self._config = WalConfig() if config is None else config
        self._filesystem = OsFilesystem() if filesystem is None else filesystem
        self._clock = SystemClock() if clock is None else clock
        self._entropy = SystemEntropy() if entropy is None else entropy
        threads = SystemThreads() if threads is None else threads
        self._config.check()
        name = directory.rstrip("/").rsplit("/", 1)[-1]
        self._work = threads.pool(1, f"wal-files-{name}")
        self._writers = threads.pool(self._config.frames_in_flight_max, f"wal-{name}")
        super().__init__(FramePool(self._config.frame_bytes_max, self._config.frames_max, frames))
        self._files = SegmentFiles(directory, self._filesystem)
        self._owner = OwnerFile(directory, self._filesystem)
        self._loop_writes = loop_writes
        self._record: OwnerRecord | None = None
        self._first: SegmentFile | None = None
        self._removable: list[str] = []
        """Truncated files that are to be deleted."""
        self._unnamed: SegmentFile | None = None
        """Made as the next file, and not named yet. Belongs to the thread of ``_work``."""
        self._recovered = RecoveredLog()
        self._commit: GroupCommit | None = None
        self._tail: LogTail | None = None
        self._truncation: Truncation | None = None
        self._supervisor = Supervisor(f"log in {directory}")
        self._idle_timer: asyncio.TimerHandle | None = None
        self._statistics = WalStatistics()
        self._appended = False
        self._closed = False
        self._closing: asyncio.Future[None] | None = None

    @property
    def epoch(self) -> int:
        assert self._record is not None  # valid after open
        return self._record.epoch

    # ---- opening

    async def open(self) -> None:
        """Take ownership; see ``Wal.open``.

        The steps, in this order: publish the epoch (fences all former owners), read the log, write again the
        records that no later one proves durable, make the first file of this epoch (it says where older
        owners end), remove dead files. The last two happen only while no successor has taken over.
        """
        assert self._record is None
        assert not self._closed
        try:
            self._record = record = await run_when_unlocked(self._work, self._take)
            recovered = await self._recover(record)
            head = FileHead(
                record.log_id,
                record.epoch,
                recovered.next_number,
                recovered.next_sequence,
                recovered.truncation_sequence,
                self._config.segment_file_bytes,
            )
            dead = [file.name for file in recovered.dead]
            first = await run_when_unlocked(
                self._work, self._owner.run_owned, lambda: self._establish(head, dead)
            )
            self._refuse_if_closed()
            self._start(recovered, first, head)
        except DirectoryLockedError as error:
            raise FencedOutError(
                f"another process takes or truncates the log in {self._directory} and does not finish: this "
                "process has not taken the log; if the other one is stalled, end it and retry"
            ) from error
        except OSError as error:
            raise translate_error(error, f"opening the log in {self._directory}") from error

    def _take(self) -> OwnerRecord:
        self._refuse_if_closed()
        return self._owner.take(self._clock, self._entropy)

    async def _recover(self, record: OwnerRecord) -> RecoveredLog:
        attempts_left = _RECOVERY_ATTEMPTS
        while True:
            attempts_left -= 1
            try:
                return await self._run(self._read_log, record.log_id)
            except (FileNotFoundError, DataCorruptionError) as error:
                # A newer owner may be changing what is being read: then nothing is proven.
                if not await self._run(self._owner.still_held):
                    raise FencedOutError("a newer owner has taken the log") from error
                if attempts_left == 0 or isinstance(error, DataCorruptionError):
                    raise

    def _read_log(self, log_id: bytes) -> RecoveredLog:
        reader = FileReader(self._directory, self._filesystem)
        try:
            recovered = recover_log(
                self._files.find(), log_id, reader.read_at, self._directory, self._owner.named
            )
            for records in recovered.unproven:
                self._files.prove(records, reader.read_at)
        finally:
            reader.close()
        return recovered

    def _establish(self, head: FileHead, dead: list[str]) -> SegmentFile:
        """Make the first file of this owner, then remove what it has made superfluous."""
        self._refuse_if_closed()
        self._first = first = self._files.create(head)
        self._owner.note_newest(first.epoch, first.number)
        names = dead + self._files.find_drafts()
        if names:
            self._files.remove(names)
        return first

    def _refuse_if_closed(self) -> None:
        if self._closed:  # nothing would close what is made from now on
            raise ClosedError(f"the log in {self._directory} was closed while it was opened")

    def _start(self, recovered: RecoveredLog, first: SegmentFile, head: FileHead) -> None:
        self._recovered = recovered
        self._commit = commit = GroupCommit(
            files=self._files,
            writers=self._writers,
            writers_max=self._config.frames_in_flight_max,
            owner=self._owner,
            epoch=head.epoch,
            log=short_log_id(head.log_id),
            next_sequence=recovered.next_sequence,
            statistics=self._statistics,
            on_file_written=self._close_file,
            loop_writes=self._loop_writes,
        )
        self._tail = LogTail(
            self._files,
            self._work,
            self._config,
            first,
            head,
            self._create,
            self._recycle,
            commit.on_tail_progress,
            self._statistics,
        )
        commit.attach(self._tail, self._on_idle)
        self._truncation = Truncation(
            recovered=recovered,
            head=head,
            owner=self._owner,
            files=self._files,
            tail=self._tail,
            commit=commit,
            work=self._work,
            statistics=self._statistics,
        )
        self._tail.start()

    # ---- idle

    def _on_idle(self) -> None:
        if self._idle_timer is None and not self._closed:
            assert self._commit is not None
            loop = asyncio.get_running_loop()
            self._idle_timer = loop.call_later(
                DURABLE_MARK_AFTER_S, self._on_idle_timer, self._commit.durable_sequence
            )

    def _on_idle_timer(self, durable: int) -> None:
        self._idle_timer = None
        commit = self._commit
        assert commit is not None
        if self._closed or commit.failure is not None or commit.frames_pending:
            return
        if commit.durable_sequence != durable:
            self._on_idle()
        else:
            self._supervisor.spawn("durable mark", self._write_durable_mark())

    async def _write_durable_mark(self) -> None:
        assert self._truncation is not None
        with contextlib.suppress(OSError, HeadraceError):  # the next write will fail, too
            await self._truncation.write_durable_mark()

    def _recycle(self, old: SegmentFile, head: FileHead) -> SegmentFile | None:
        """Make a file of a truncated one. Its old name is removed while no successor reads the log.

        Returns None, and leaves the old file as it was, if the lock is taken: a record may be waiting for the
        next file, so that one is made without the old one then. The same if that one is made already.
        """
        if self._unnamed is not None:
            return None
        try:
            self._owner.run_owned(lambda: self._files.make_draft(old, head))
        except DirectoryLockedError:
            return None
        return self._create(head, old.zeroed_until)

    def _create(self, head: FileHead, zeroed_until: int = DATA_OFFSET) -> SegmentFile:
        """Make a file and name it, so that its loss would be noticed. It holds nothing before that.

        A file that could not be named is used by the next attempt, whatever number that would give it.
        """
        if self._unnamed is None:
            self._unnamed = self._files.create(head, zeroed_until)
        file = self._unnamed
        self._owner.note_newest(file.epoch, file.number)
        self._unnamed = None
        return file

    def _close_file(self, file: SegmentFile) -> None:
        """Every record of the file was answered and none will follow."""
        if not self._closed:
            self._work.submit(self._files.close, (file,), _ignore)

    # ---- reading back

    async def records(self) -> AsyncGenerator[WalRecord, None]:
        """Iterate the log; see ``Wal.records``. Reads ahead in large pieces, on the loop, and never waits."""
        assert self._record is not None
        assert self._commit is not None
        assert not self._appended
        log = short_log_id(self._record.log_id)
        reader = FileReader(self._directory, self._filesystem)
        try:
            for extent in self._recovered.extents:
                cursor = RecordCursor(reader.read_at, extent.file, log, extent.needed_offset)
                for record in self._extent_records(extent, cursor):
                    yield record
        except (OSError, DataCorruptionError) as error:
            fence = self._commit.find_fence()
            if fence is not None:  # a newer owner may remove what is being read
                raise fence from error
            if isinstance(error, OSError):
                raise translate_error(error, f"reading the log in {self._directory}") from error
            raise
        finally:
            reader.close()

    def _extent_records(self, extent: LogExtent, cursor: RecordCursor) -> Iterator[WalRecord]:
        assert self._truncation is not None
        truncation = self._truncation.sequence
        record = WalRecord(0, memoryview(b""))
        for sequence in range(extent.needed_sequence, extent.end_sequence):
            at = cursor.offset
            found = cursor.next_record()
            if found is None or found[0].sequence != sequence:
                path = f"{self._directory}/{extent.file.name}"
                raise DataCorruptionError(f"record {sequence} is damaged", path=path, offset=at)
            if sequence >= truncation:
                record.address = sequence
                record.payload = found[1]
                yield record

    def copy_records(self) -> AsyncGenerator[list[bytes], None]:
        """See ``Wal.copy_records``. Read in the thread of the files, in small steps."""
        return copy_log(self._work, self._directory, self._filesystem)

    # ---- appending

    @property
    def slots_free(self) -> int:
        assert self._commit is not None
        return max(0, self._config.frames_in_flight_max - self._commit.frames_pending)

    @property
    def write_seconds_last(self) -> float:
        return self._statistics.write_seconds_last

    def append(self, frame: WalFrame, done: Callable[[WalFrame, Exception | None], None]) -> None:
        frame = self._pool.lent(frame)
        assert self._commit is not None
        assert not self._closed
        self._appended = True
        self._commit.append(frame, done)

    # ---- truncating

    async def separate(self) -> None:
        """See ``Wal.separate``."""
        assert self._tail is not None
        switched: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._tail.switch_file(lambda: None if switched.done() else switched.set_result(None))
        await switched

    async def truncate(self, address: int) -> None:
        """Drop records before ``address``; see ``Wal.truncate``. By whole files on disk."""
        assert self._truncation is not None
        try:
            await self._truncation.advance(address)
        except OSError as error:
            raise WalWriteError(f"truncating the log in {self._directory} failed: {error}") from error

    async def purge_freed(self) -> bool:
        """See ``Wal.purge_freed``. Files are recycled again once this has returned True."""
        assert self._truncation is not None
        assert self._tail is not None
        self._removable += [file.name for file in self._tail.release_spares()]
        try:
            if self._removable:
                await self._truncation.remove(self._removable)
        except OSError as error:
            raise WalWriteError(f"removing log files in {self._directory} failed: {error}") from error
        self._removable.clear()
        if self._tail.has_freed_bytes:
            return False
        self._tail.retain_spares()
        return True

    # ---- ending

    async def is_fenced(self) -> bool:
        """See ``Wal.is_fenced``. Never waits: the read is a short one."""
        if not self._closed and self._record is not None:
            with contextlib.suppress(OSError):
                return not self._owner.still_held()
        return False

    def stop_waiting(self) -> None:
        """See ``Wal.stop_waiting``."""
        if self._commit is not None and self._tail is not None:
            try:
                self._commit.stop_waiting()
            finally:  # a callback may have raised; records that wait for a file are answered, too
                self._tail.stop_waiting()

    async def close(self) -> None:
        """Wait for frames in flight, mark the last of them as durable, release files and threads.

        It happens once and to its end, even if a caller is cancelled; every caller gets its outcome.

        Raises:
            WalWriteError: a file did not close without error, or a callback raised; all else was released.
        """
        if self._closing is None:
            self._closed = True
            self._closing = asyncio.ensure_future(self._close())
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        steps = LastSteps(f"closing the log in {self._directory}")
        await self._finish(steps)
        self._pool.close()
        self._writers.close()
        await self._wait_for_writers(steps)
        for file in self._open_files():
            await self._close_in_thread(partial(self._files.close, file), steps)
        await self._close_in_thread(self._owner.close, steps)
        self._work.close()
        with steps.step():
            await self._work.wait_closed()
        steps.end()

    async def _finish(self, steps: LastSteps) -> None:
        """Wait until every frame is answered, and end the work in the background."""
        if self._commit is not None and self._tail is not None:
            with steps.step():
                self.stop_waiting()
            with steps.step():
                await self._commit.wait_idle()
            if self._idle_timer is not None:
                self._idle_timer.cancel()
            with steps.step():
                await self._supervisor.stop()
            self._tail.stop()
        # Jobs are answered in order: those of the tail, or of an open that was given up, are over then.
        with steps.step(), contextlib.suppress(BlockingIOError):  # no thread has ever started: no job
            await self._run(_ignore)
        if self._commit is not None and not steps.failed:
            with steps.step():
                if not await self._write_close_mark(self._commit):
                    await self._write_durable_mark()

    async def _wait_for_writers(self, steps: LastSteps) -> None:
        """Wait until no thread writes, even if cancelled: a descriptor that is closed under one may
        belong to another file when it writes.
        """
        cancelled = True
        while cancelled:
            cancelled = False
            with steps.step():
                try:
                    await self._writers.wait_closed()
                except asyncio.CancelledError:
                    cancelled = True
                    raise

    async def _write_close_mark(self, commit: GroupCommit) -> bool:
        """See ``GroupCommit.write_close_mark``. If that raises, the frame stays lent: a thread may use it."""
        try:
            frame = self._pool.acquire()
        except OSError:  # no memory for one
            return False
        if frame is None:
            return False
        written = await commit.write_close_mark(frame)
        self._pool.release(frame)
        return written

    def _open_files(self) -> list[SegmentFile]:
        files: list[SegmentFile | None] = [self._unnamed]
        if self._commit is not None and self._tail is not None:
            files += [*self._commit.used_files, *self._tail.open_files()]
        else:
            files.append(self._first)
        return list(dict.fromkeys(file for file in files if file is not None))

    async def _close_in_thread(self, close: Callable[[], None], steps: LastSteps) -> None:
        with steps.step(), contextlib.suppress(BlockingIOError):  # no thread has ever started: nothing open
            await self._run(close)

    def statistics(self) -> WalStatistics:
        statistics = self._statistics.copy()
        statistics.frames_free = self._pool.frames_free
        if self._commit is not None:
            self._commit.fill_statistics(statistics)
        return statistics

    def check(self) -> None:
        """Assert the invariants of the parts."""
        self._pool.check()
        if self._commit is not None:
            self._commit.check()

    async def _run(self, fn: Callable[..., T], *args: object) -> T:
        return await self._work.run(fn, *args)


def _ignore(*_answer: object) -> None:
    """The end of all earlier work; or nothing depends on the answer: what the file held is durable."""
