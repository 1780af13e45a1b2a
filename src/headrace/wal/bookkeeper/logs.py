"""The logs of a system over BookKeeper: the node of each is named by its container."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Final, TypeVar

from headrace.errors import (
    DataCorruptionError,
    HeadraceError,
    MetadataConflictError,
    NodeExistsError,
    NoSuchNodeError,
    SnapshotLostError,
    WalWriteError,
)
from headrace.runtime.context import Runtime
from headrace.wal.blocking_look import Looks
from headrace.wal.bookkeeper.cluster import LedgerCluster
from headrace.wal.bookkeeper.config import LedgerLogConfig
from headrace.wal.bookkeeper.entry_format import Entry
from headrace.wal.bookkeeper.ledger_nodes import ledger_path
from headrace.wal.bookkeeper.ledger_store import LedgerStore
from headrace.wal.bookkeeper.ledger_wal import BookKeeperWal
from headrace.wal.bookkeeper.log_node import LogNode, decode_log, encode_log
from headrace.wal.bookkeeper.looking import SeenLog, find_log, look_at_log, read_some
from headrace.wal.bookkeeper.next_ledger import LedgerMaker
from headrace.wal.bookkeeper.renewed_session import RenewedSession, wal_errors
from headrace.wal.config import WalConfig
from headrace.wal.contract import Wal
from headrace.wal.frame_memory import FrameMemory
from headrace.wal.log_system import LogSystem
from headrace.wal.logs import LogFrame

T = TypeVar("T")

_BATCH_ENTRIES: Final = 16
"""Entries that are read before the first of them is handed on, of at most 1 MiB each."""


class _Look:
    """Runs calls that wait. Those that follow each other share a session."""

    def __init__(self, cluster: LedgerCluster) -> None:
        self.cluster = cluster
        self._looks = Looks(self._open)

    def run(self, work: Callable[[LedgerStore], Awaitable[T]]) -> T:
        """Return what ``work`` does.

        Raises:
            WalWriteError: the nodes or the bookies do not answer.
        """
        with wal_errors(self.cluster.place):
            return self._looks.run(work)

    @asynccontextmanager
    async def _open(self) -> AsyncGenerator[LedgerStore, None]:
        nodes = RenewedSession(self.cluster.make_coordinator())
        try:
            yield LedgerStore(nodes, self.cluster.connect)
        finally:
            await nodes.close()


class LedgerLogSnapshot:
    """A ``LogSnapshot`` of a log over BookKeeper."""

    def __init__(self, place: str, look: _Look, seen: SeenLog) -> None:
        self.place = place
        self.problem = seen.problem
        self.epoch = seen.node.container_epoch
        self.first_address = None if seen.problem else seen.node.truncation_address
        self.next_address = None if seen.problem else seen.next_address
        self._look = look
        self._seen = seen

    def frames(self) -> Iterator[LogFrame]:
        """See ``LogSnapshot.frames``. Some entries are read at the same time."""
        seen = self._seen
        for each in seen.node.ledgers:
            ledger = seen.ledgers.get(each.ledger)
            if ledger is None:
                break
            first = max(0, seen.node.truncation_address - each.first_address)
            for start in range(first, ledger.last_entry + 1, _BATCH_ENTRIES):
                entries = range(start, min(start + _BATCH_ENTRIES, ledger.last_entry + 1))
                for entry in self._read(each.ledger, entries):
                    address = each.first_address + entry.entry
                    name = f"ledger {each.ledger}"
                    yield LogFrame(name, entry.entry, address, each.container_epoch, entry.payload)
        if self.problem:
            raise DataCorruptionError(self.problem, path=self.place)

    def _read(self, ledger: int, entries: range) -> list[Entry]:
        try:
            return self._look.run(lambda store: read_some(self._seen, store, ledger, entries))
        except DataCorruptionError as error:
            if self._look.run(lambda store: store.nodes.read(ledger_path(ledger))) is None:
                raise SnapshotLostError("the log was truncated while it was read") from error
            raise
        except WalWriteError as error:
            raise OSError(str(error)) from error


class FoundLedgerLog:
    """A ``FoundLog`` of ``container``."""

    def __init__(self, container: int, look: _Look) -> None:
        self._path = look.cluster.log_path(container)
        self.place = f"{look.cluster.place}: {self._path}"
        self._container = container
        self._look = look

    def is_begun(self) -> bool:
        """See ``FoundLog.is_begun``."""
        try:
            node = self._look.run(lambda store: find_log(store, self._path, self._container))
        except DataCorruptionError:
            return True
        except WalWriteError as error:
            raise OSError(str(error)) from error
        return node is not None and node.is_begun

    def snapshot(self) -> LedgerLogSnapshot:
        """See ``FoundLog.snapshot``."""
        try:
            seen = self._look.run(lambda store: look_at_log(store, self._path, self._container))
        except WalWriteError as error:
            raise OSError(str(error)) from error
        if seen is None:
            raise DataCorruptionError("the log of this container is missing", path=self.place)
        return LedgerLogSnapshot(self.place, self._look, seen)


class FoundLedgerLogs:
    """``OutsideLogs`` of one system over BookKeeper."""

    def __init__(self, cluster: LedgerCluster) -> None:
        self._cluster = cluster
        self._look = _Look(cluster)

    def numbers(self) -> list[int]:
        """See ``FoundLogs.numbers``."""
        try:
            return self._look.run(lambda store: self._cluster.containers(store.nodes))
        except WalWriteError as error:
            raise OSError(str(error)) from error

    def log(self, container: int) -> FoundLedgerLog:
        return FoundLedgerLog(container, self._look)

    def find_system(self) -> LogSystem | None:
        """See ``OutsideLogs.find_system``."""
        return self._look.run(lambda store: self._cluster.find_system(store.nodes))

    def claim_system(self, system: LogSystem) -> LogSystem:
        """See ``OutsideLogs.claim_system``."""
        return self._look.run(lambda store: self._cluster.claim_system(store.nodes, system))

    def prove(self) -> None:
        """See ``OutsideLogs.prove``."""
        self._look.run(lambda store: self._cluster.check(store.nodes))


class LedgerLogs(FoundLedgerLogs):
    """``Logs`` of one loop. They share a session, begun at its first use."""

    def __init__(
        self,
        cluster: LedgerCluster,
        runtime: Runtime,
        config: WalConfig | None = None,
        ledgers: LedgerLogConfig | None = None,
        *,
        frames: FrameMemory | None = None,
    ) -> None:
        super().__init__(cluster)
        self._runtime = runtime
        self._config = config
        self._ledgers = ledgers
        self._frames = frames
        self._opened: tuple[RenewedSession, LedgerMaker] | None = None

    @property
    def _session(self) -> tuple[RenewedSession, LedgerMaker]:
        if self._opened is None:
            nodes = RenewedSession(self._cluster.make_coordinator())
            store = LedgerStore(nodes, self._cluster.connect)
            self._opened = nodes, LedgerMaker(store, self._cluster.quorums, self._runtime)
        return self._opened

    def make_wal(self, container: int) -> Wal:
        path = self._cluster.log_path(container)
        return BookKeeperWal(
            self._session[1], path, container, self._config, self._ledgers, frames=self._frames
        )

    async def begin(self, container: int, container_epoch: int) -> None:
        node = LogNode(container, container_epoch - 1, first_epoch=container_epoch)
        path = self._cluster.log_path(container)
        with wal_errors(path):
            try:
                await self._session[0].create(path, encode_log(node))
            except NodeExistsError:
                raise WalWriteError(f"there is a log at {path}: delete it first") from None

    async def delete(self, container: int) -> None:
        path = self._cluster.log_path(container)
        nodes, maker = self._session
        try:
            with wal_errors(path):
                while (found := await nodes.read(path)) is not None:
                    node = decode_log(found.data, container)
                    for each in node.ledgers:
                        await maker.store.delete(each.ledger)
                    try:
                        await nodes.delete(path, found.version)
                    except (MetadataConflictError, NoSuchNodeError):
                        continue  # look again
        except HeadraceError as error:
            raise OSError(f"the log at {path} was not deleted: {error}") from error

    async def close(self) -> None:
        """End the session, when all logs are closed. Idempotent."""
        opened, self._opened = self._opened, None
        if opened is not None:
            await opened[0].close()
