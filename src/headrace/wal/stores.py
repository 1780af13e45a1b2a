"""Makes the logs of a system from its configuration: the only code that knows where logs can be kept."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from headrace.runtime.context import Runtime
from headrace.runtime.filesystem import Filesystem
from headrace.wal.config import WalConfig
from headrace.wal.file.logs import FileLogs, FoundFileLogs
from headrace.wal.frame_memory import FrameMemory
from headrace.wal.logs import FoundLogs, Logs
from headrace.wal.loop_writes import LoopWrites
from headrace.wal.memory import MemoryLogStore
from headrace.wal.memory_logs import MemoryLogs
from headrace.wal.objects.config import ObjectLogConfig
from headrace.wal.objects.log_objects import LogObjects
from headrace.wal.objects.logs import FoundObjectLogs, ObjectLogs
from headrace.wal.objects.system_plan import LogSystem

__all__ = ["LogBucket", "LogSystem", "find_logs", "make_logs"]

_DIRECTORY: Final = "wal"
"""Of the logs, in the data directory."""


@dataclass(frozen=True, slots=True)
class LogBucket:
    """Logs that are kept in a store of objects, not in the data directory."""

    place: str
    """The URI, for messages."""
    make_store: Callable[[], LogObjects]
    """Makes the store for the loop that it is called on, which may be one of a thread."""

    def find_system(self) -> LogSystem | None:
        """Return whose logs these are; see ``FoundObjectLogs.find_system``. Waits for the store."""
        return FoundObjectLogs(self.place, self.make_store).find_system()

    def claim_system(self, system: LogSystem) -> LogSystem:
        """Claim it for a system; see ``FoundObjectLogs.claim_system``. Waits for the store."""
        return FoundObjectLogs(self.place, self.make_store).claim_system(system)


def find_logs(data_directory: str, files: Filesystem, bucket: LogBucket | None = None) -> FoundLogs:
    """Return the logs of a system that keeps its data in ``data_directory``, for looking only.

    ``bucket``: where its logs are, if not there.
    """
    if bucket is not None:
        return FoundObjectLogs(bucket.place, bucket.make_store)
    return FoundFileLogs(f"{data_directory}/{_DIRECTORY}", files)


def make_logs(
    data_directory: str,
    runtime: Runtime,
    config: WalConfig | None = None,
    *,
    in_memory: bool = False,
    frames: FrameMemory | None = None,
    loop_writes: LoopWrites | None = None,
    bucket: LogBucket | None = None,
    object_config: ObjectLogConfig | None = None,
) -> Logs:
    """Return the logs of a system, for the process of its containers.

    ``bucket``: where they are, if not in the data directory; ``object_config`` is for those.

    ``frames``, ``loop_writes``: shared by all of its logs.
    """
    if in_memory:
        return MemoryLogs(MemoryLogStore(), config, frames=frames)
    if bucket is not None:
        return ObjectLogs(
            bucket.place, bucket.make_store, runtime.entropy, config, object_config, frames=frames
        )
    return FileLogs(f"{data_directory}/{_DIRECTORY}", runtime, config, frames=frames, loop_writes=loop_writes)
