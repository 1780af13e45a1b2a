"""What is known of a cluster of bookies and of the part of its nodes that a system has for its logs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from headrace.coordination.contract import Coordinator
from headrace.errors import NodeExistsError, UnknownOutcomeError, WalWriteError
from headrace.wal.bookkeeper.bookie_connection import Connect, connect_bookie
from headrace.wal.bookkeeper.ledger_store import LedgerStore, Nodes
from headrace.wal.bookkeeper.location import SYSTEM_DEFAULT
from headrace.wal.bookkeeper.log_node import LOGS, SYSTEM, decode_system, encode_system
from headrace.wal.bookkeeper.quorums import Quorums
from headrace.wal.log_system import LogSystem

OURS: Final = "headrace"
"""The node below the root of the ledgers that has those of systems; BookKeeper looks at none of its name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerCluster:
    """Bookies, and where a system has its logs among them."""

    place: str
    """The URI, for messages."""
    make_coordinator: Callable[[], Coordinator]
    """Whose sessions have the root of the ledgers as their own."""
    system: str = SYSTEM_DEFAULT
    quorums: Quorums = field(default_factory=Quorums)
    connect: Connect = connect_bookie

    @property
    def logs_path(self) -> str:
        """The node whose children are the logs."""
        return f"{OURS}/{self.system}/{LOGS}"

    def log_path(self, container: int) -> str:
        return f"{self.logs_path}/{container}"

    @property
    def _system_path(self) -> str:
        return f"{OURS}/{self.system}/{SYSTEM}"

    async def containers(self, nodes: Nodes) -> list[int]:
        """Return the containers that have a log."""
        return sorted(int(name) for name in await nodes.children(self.logs_path) if name.isdecimal())

    async def check(self, nodes: Nodes) -> None:
        """Check that logs can be here.

        Raises:
            InvalidArgumentError: there is no BookKeeper.
            UnsupportedError: it names its nodes otherwise.
            WalWriteError: too few bookies are alive.
        """
        store = LedgerStore(nodes, self.connect)
        await store.check()
        writable, _ = await store.read_bookies()
        if len(writable) < self.quorums.ack:
            raise WalWriteError(
                f"{len(writable)} bookies take entries, and {self.quorums.ack} have to have each: start more "
                "bookies"
            )

    async def find_system(self, nodes: Nodes) -> LogSystem | None:
        """Return whose logs these are, None if nobody has claimed them.

        Raises:
            DataCorruptionError: that is damaged.
        """
        found = await nodes.read(self._system_path)
        return None if found is None else decode_system(found.data)

    async def claim_system(self, nodes: Nodes, system: LogSystem) -> LogSystem:
        """Claim the logs for a system; return whose they are, which may be another's.

        Raises:
            DataCorruptionError: that is damaged.
        """
        while (found := await self.find_system(nodes)) is None:
            try:
                await nodes.create(self._system_path, encode_system(system))
            except (NodeExistsError, UnknownOutcomeError):
                continue
        return found
