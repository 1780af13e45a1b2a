"""Makes the logs of a system from its configuration: the only code that knows where logs can be kept."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import dataclass, replace
from typing import Final, Protocol

from headrace.coordination.coordinators import make_coordinator
from headrace.runtime.context import Runtime
from headrace.runtime.filesystem import Filesystem
from headrace.wal.bookkeeper.cluster import LedgerCluster
from headrace.wal.bookkeeper.config import LedgerLogConfig
from headrace.wal.bookkeeper.location import BookKeeperLocation
from headrace.wal.bookkeeper.logs import FoundLedgerLogs, LedgerLogs
from headrace.wal.bookkeeper.wire_format import PAYLOAD_BYTES_MAX
from headrace.wal.config import WalConfig
from headrace.wal.file.logs import FileLogs, FoundFileLogs
from headrace.wal.frame_memory import FrameMemory
from headrace.wal.log_system import LogSystem
from headrace.wal.logs import FoundLogs, Logs, OutsideLogs
from headrace.wal.loop_writes import LoopWrites
from headrace.wal.memory import MemoryLogStore
from headrace.wal.memory_logs import MemoryLogs
from headrace.wal.objects.config import ObjectLogConfig
from headrace.wal.objects.log_objects import LogObjects
from headrace.wal.objects.logs import FoundObjectLogs, ObjectLogs

__all__ = [
    "BookKeeperLocation",
    "LogBookies",
    "LogBucket",
    "LogPlace",
    "LogSystem",
    "ObjectLogConfig",
    "bookies_at",
    "find_logs",
    "frames_for",
    "make_logs",
]

_DIRECTORY: Final = "wal"
"""Of the logs, in the data directory."""


class LogPlace(Protocol):
    """Where logs are that outlive the machine: not in the data directory."""

    @property
    def place(self) -> str:
        """The URI, for messages."""

    @property
    def frame_bytes_max(self) -> int | None:
        """What a frame holds at most; None: as configured."""

    def find_logs(self) -> OutsideLogs:
        """Return its logs, for looking only."""

    def make_logs(self, runtime: Runtime, config: WalConfig | None, frames: FrameMemory | None) -> Logs:
        """Return its logs, for the process of the containers; ``frames``: shared by all of them."""


@dataclass(frozen=True, slots=True)
class LogBucket:
    """A ``LogPlace`` in a store of objects."""

    place: str
    make_store: Callable[[], LogObjects]
    """Makes the store for the loop that it is called on, which may be one of a thread."""
    prove_store: Callable[[], Coroutine[None, None, None]] | None = None
    """Checks that it lets no object be overwritten."""
    config: ObjectLogConfig | None = None
    frame_bytes_max: int | None = None

    def find_logs(self) -> OutsideLogs:
        """See ``LogPlace.find_logs``."""
        return FoundObjectLogs(self.place, self.make_store, self.prove_store)

    def make_logs(self, runtime: Runtime, config: WalConfig | None, frames: FrameMemory | None) -> Logs:
        """See ``LogPlace.make_logs``."""
        return ObjectLogs(self.place, self.make_store, runtime.entropy, config, self.config, frames=frames)


@dataclass(frozen=True, slots=True)
class LogBookies:
    """A ``LogPlace`` over BookKeeper."""

    cluster: LedgerCluster
    config: LedgerLogConfig | None = None
    frame_bytes_max: int | None = PAYLOAD_BYTES_MAX

    @property
    def place(self) -> str:
        """See ``LogPlace.place``."""
        return self.cluster.place

    def find_logs(self) -> OutsideLogs:
        """See ``LogPlace.find_logs``."""
        return FoundLedgerLogs(self.cluster)

    def make_logs(self, runtime: Runtime, config: WalConfig | None, frames: FrameMemory | None) -> Logs:
        """See ``LogPlace.make_logs``."""
        return LedgerLogs(self.cluster, runtime, config, self.config, frames=frames)


def bookies_at(location: BookKeeperLocation, runtime: Runtime) -> LogBookies:
    """Return the place that a URI names.

    Raises:
        UnsupportedError: the library for ZooKeeper is not installed.
    """
    make_coordinator(location.nodes, runtime.threads)
    return LogBookies(
        LedgerCluster(
            place=str(location),
            make_coordinator=lambda: make_coordinator(location.nodes, runtime.threads, makes_root=False),
            system=location.system,
            quorums=location.quorums,
        )
    )


def find_logs(data_directory: str, files: Filesystem, place: LogPlace | None = None) -> FoundLogs:
    """Return the logs of a system that keeps its data in ``data_directory``, for looking only.

    ``place``: where its logs are, if not there.
    """
    if place is not None:
        return place.find_logs()
    return FoundFileLogs(f"{data_directory}/{_DIRECTORY}", files)


def frames_for(config: WalConfig, place: LogPlace | None) -> WalConfig:
    """Return the configuration with frames that the place of the logs can hold."""
    bytes_max = None if place is None else place.frame_bytes_max
    return (
        config
        if bytes_max is None
        else replace(config, frame_bytes_max=min(config.frame_bytes_max, bytes_max))
    )


def make_logs(
    data_directory: str,
    runtime: Runtime,
    config: WalConfig | None = None,
    *,
    in_memory: bool = False,
    frames: FrameMemory | None = None,
    loop_writes: LoopWrites | None = None,
    place: LogPlace | None = None,
) -> Logs:
    """Return the logs of a system, for the process of its containers.

    ``place``: where they are, if not in the data directory; then ``config`` is that of :func:`frames_for`.

    ``frames``, ``loop_writes``: shared by all of its logs.
    """
    if in_memory:
        return MemoryLogs(MemoryLogStore(), config, frames=frames)
    if place is not None:
        return place.make_logs(runtime, config, frames)
    return FileLogs(f"{data_directory}/{_DIRECTORY}", runtime, config, frames=frames, loop_writes=loop_writes)
