"""What one log works with from the first step of its opening to the last one of its closing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from headrace.runtime.blocking import BlockingWork
from headrace.runtime.filesystem import Filesystem
from headrace.wal.config import WalConfig
from headrace.wal.contract import WalStatistics
from headrace.wal.file.new_files import NewFiles
from headrace.wal.file.owner_record import OwnerFile
from headrace.wal.file.segment_files import FileReader, SegmentFiles
from headrace.wal.frame_pool import FramePool
from headrace.wal.loop_writes import LoopWrites

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class LogMeans:
    """The directory of a log, its threads and its frames. Whoever makes it closes the log in the end."""

    config: WalConfig
    filesystem: Filesystem
    work: BlockingWork
    """One thread: files are made, zeroed, removed and closed in the order of its jobs."""
    writers: BlockingWork
    pool: FramePool
    files: SegmentFiles
    owner: OwnerFile
    new_files: NewFiles
    loop_writes: LoopWrites | None
    statistics: WalStatistics

    @property
    def directory(self) -> str:
        return self.files.directory

    def reader(self) -> FileReader:
        """Return a reader of the files, to be closed."""
        return FileReader(self.directory, self.filesystem)

    async def run(self, fn: Callable[..., T], *args: object) -> T:
        """Perform ``fn(*args)`` in the thread of the files."""
        return await self.work.run(fn, *args)
