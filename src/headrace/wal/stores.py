"""Makes the logs of a system from its configuration: the only code that knows where logs can be kept."""

from __future__ import annotations

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

_DIRECTORY: Final = "wal"
"""Of the logs, in the data directory."""


def find_logs(data_directory: str, files: Filesystem) -> FoundLogs:
    """Return the logs of a system that keeps its data in ``data_directory``, for looking only."""
    return FoundFileLogs(f"{data_directory}/{_DIRECTORY}", files)


def make_logs(
    data_directory: str,
    runtime: Runtime,
    config: WalConfig | None = None,
    *,
    in_memory: bool = False,
    frames: FrameMemory | None = None,
    loop_writes: LoopWrites | None = None,
) -> Logs:
    """Return the logs of a system, for the process of its containers.

    ``frames``, ``loop_writes``: shared by all of its logs.
    """
    if in_memory:
        return MemoryLogs(MemoryLogStore(), config, frames=frames)
    return FileLogs(f"{data_directory}/{_DIRECTORY}", runtime, config, frames=frames, loop_writes=loop_writes)
