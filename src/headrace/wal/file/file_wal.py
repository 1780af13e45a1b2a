"""The write-ahead log on local files: one directory per log.

This is its face. The steps of a life are nouns of their own: ``opening``, ``open_log``, ``closing``; what
bytes mean is decided in ``recovery_plan``, which owner may acknowledge in ``owner_record``, what is written
when in ``group_commit`` and ``log_tail``. Addresses of this log are record sequences.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable

from headrace.errors import WalWriteError
from headrace.runtime.blocking import SystemThreads, Threads
from headrace.runtime.clock import Clock, SystemClock
from headrace.runtime.entropy import Entropy, SystemEntropy
from headrace.runtime.filesystem import Filesystem, OsFilesystem
from headrace.wal.config import WalConfig
from headrace.wal.contract import WalFrame, WalRecord, WalStatistics
from headrace.wal.file.closing import Closing
from headrace.wal.file.log_copy import copy_log
from headrace.wal.file.log_means import LogMeans
from headrace.wal.file.new_files import NewFiles
from headrace.wal.file.open_log import OpenLog
from headrace.wal.file.opening import Opening
from headrace.wal.file.owner_record import OwnerFile
from headrace.wal.file.segment_files import SegmentFiles
from headrace.wal.frame_memory import FrameMemory
from headrace.wal.frame_pool import FrameLender, FramePool
from headrace.wal.loop_writes import LoopWrites


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
        config = WalConfig() if config is None else config
        config.check()
        filesystem = OsFilesystem() if filesystem is None else filesystem
        threads = SystemThreads() if threads is None else threads
        name = directory.rstrip("/").rsplit("/", 1)[-1]
        super().__init__(FramePool(config.frame_bytes_max, config.frames_max, frames))
        files = SegmentFiles(directory, filesystem)
        owner = OwnerFile(directory, filesystem)
        self._means = LogMeans(
            config=config,
            filesystem=filesystem,
            work=threads.pool(1, f"wal-files-{name}"),
            writers=threads.pool(config.frames_in_flight_max, f"wal-{name}"),
            pool=self._pool,
            files=files,
            owner=owner,
            new_files=NewFiles(files, owner),
            loop_writes=loop_writes,
            statistics=WalStatistics(),
        )
        self._opening = Opening(
            self._means,
            SystemClock() if clock is None else clock,
            SystemEntropy() if entropy is None else entropy,
        )
        self._log: OpenLog | None = None
        self._appended = False
        self._closing: asyncio.Future[None] | None = None

    @property
    def epoch(self) -> int:
        assert self._opening.record is not None  # valid after open
        return self._opening.record.epoch

    async def open(self) -> None:
        """Take ownership; see ``Wal.open`` and ``Opening.run``."""
        assert self._closing is None
        self._log = OpenLog(self._means, await self._opening.run())

    # ---- reading back

    async def records(self) -> AsyncGenerator[WalRecord, None]:
        """Iterate the log; see ``Wal.records``. Reads ahead in large pieces, on the loop, and never waits."""
        assert self._log is not None
        assert not self._appended
        with contextlib.closing(self._log.recovered_records()) as records:
            for record in records:
                yield record

    def copy_records(self) -> AsyncGenerator[list[bytes], None]:
        """See ``Wal.copy_records``. Read in the thread of the files, in small steps."""
        return copy_log(self._means.work, self._means.directory, self._means.filesystem)

    # ---- appending

    @property
    def slots_free(self) -> int:
        assert self._log is not None
        return max(0, self._means.config.frames_in_flight_max - self._log.commit.frames_pending)

    @property
    def write_seconds_last(self) -> float:
        return self._means.statistics.write_seconds_last

    def append(self, frame: WalFrame, done: Callable[[WalFrame, Exception | None], None]) -> None:
        frame = self._pool.lent(frame)
        assert self._log is not None
        assert self._closing is None
        self._appended = True
        self._log.commit.append(frame, done)

    # ---- truncating

    async def separate(self) -> None:
        """See ``Wal.separate``."""
        assert self._log is not None
        switched: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._log.tail.switch_file(lambda: None if switched.done() else switched.set_result(None))
        await switched

    async def truncate(self, address: int) -> None:
        """Drop records before ``address``; see ``Wal.truncate``. By whole files on disk."""
        assert self._log is not None
        try:
            await self._log.truncation.advance(address)
        except OSError as error:
            raise WalWriteError(f"truncating the log in {self._means.directory} failed: {error}") from error

    async def purge_freed(self) -> bool:
        """See ``Wal.purge_freed``. Files are recycled again once this has returned True."""
        assert self._log is not None
        try:
            return await self._log.truncation.remove_spares()
        except OSError as error:
            raise WalWriteError(f"removing log files in {self._means.directory} failed: {error}") from error

    # ---- ending

    async def is_fenced(self) -> bool:
        """See ``Wal.is_fenced``. Never waits: the read is a short one."""
        if self._closing is None and self._opening.record is not None:
            with contextlib.suppress(OSError):
                return not self._means.owner.still_held()
        return False

    def stop_waiting(self) -> None:
        """See ``Wal.stop_waiting``."""
        if self._log is not None:
            self._log.stop_waiting()

    async def close(self) -> None:
        """Wait for frames in flight, mark the last of them as durable, release files and threads.

        It happens once and to its end, even if a caller is cancelled; every caller gets its outcome.

        Raises:
            WalWriteError: see ``Closing.run``.
        """
        if self._closing is None:
            self._closing = asyncio.ensure_future(Closing(self._means, self._opening, self._log).run())
        await asyncio.shield(self._closing)

    def statistics(self) -> WalStatistics:
        statistics = self._means.statistics.copy()
        statistics.frames_free = self._means.pool.frames_free
        if self._log is not None:
            self._log.commit.fill_statistics(statistics)
        return statistics

    def check(self) -> None:
        """Assert the invariants of the parts."""
        self._means.pool.check()
        if self._log is not None:
            self._log.commit.check()
