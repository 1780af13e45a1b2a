"""Makes ledgers: chooses bookies that take a connection, and says which log the ledger will belong to."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass

from headrace.errors import HeadraceError, StorageFullError, WalWriteError
from headrace.runtime.context import Runtime
from headrace.wal.bookkeeper.ensemble import EnsembleChoice, Quarantine, choose_ensemble
from headrace.wal.bookkeeper.ledger_metadata import Ensemble, LedgerMetadata
from headrace.wal.bookkeeper.ledger_store import LedgerStore
from headrace.wal.bookkeeper.open_ledger import LedgerConnection, connect_bookies
from headrace.wal.bookkeeper.quorums import Quorums

_DRAWS = 1 << 16


@dataclass(slots=True)
class NextLedger:
    """A ledger that is made, and connected to all of its bookies, and belongs to no log yet."""

    number: int
    metadata: LedgerMetadata
    quorums: Quorums
    is_degraded: bool
    connections: dict[str, LedgerConnection]

    @property
    def is_connected(self) -> bool:
        return not any(connection.is_lost for connection in self.connections.values())

    def abort(self) -> None:
        """Give it up; it stays, empty."""
        for connection in self.connections.values():
            connection.abort()


class LedgerMaker:
    """Makes the ledgers of all logs of a process, so that each knows which bookies failed another one."""

    def __init__(self, store: LedgerStore, wanted: Quorums, runtime: Runtime) -> None:
        self.store = store
        self._wanted = wanted
        self._runtime = runtime
        self._quarantine = Quarantine()

    def suspect(self, bookie: str) -> None:
        """Choose ``bookie`` last for a while: it failed."""
        self._quarantine.add(bookie, asyncio.get_running_loop().time())

    async def make(self, log_path: str, *, more_than: int = 0) -> NextLedger | None:
        """Make a ledger of the log at ``log_path``; None: not on more bookies than ``more_than``.

        Raises:
            StorageFullError: enough bookies are alive, and too few of them take entries.
            WalWriteError: too few bookies are alive.
        """
        choice, connections = await self._connect(more_than)
        if choice is None:
            return None
        names = tuple(bookie.id for bookie in choice.bookies)
        entropy = self._runtime.entropy
        metadata = LedgerMetadata(
            write_quorum=choice.quorums.write,
            ack_quorum=choice.quorums.ack,
            ensembles=(Ensemble(0, names),),
            created_ms=self._runtime.clock.now_ms(),
            token=entropy.randbelow(1 << 62),
            custom={"application": b"headrace", "log": log_path.encode()},
        )
        made = NextLedger(0, metadata, choice.quorums, choice.is_degraded, connections)
        try:
            made.number = await self.store.create(metadata)
        except BaseException:
            made.abort()
            raise
        return made

    async def discard(self, ledger: NextLedger) -> None:
        """Delete a ledger that no log has; best effort."""
        ledger.abort()
        with contextlib.suppress(HeadraceError):
            await self.store.delete(ledger.number)

    async def _connect(self, more_than: int) -> tuple[EnsembleChoice | None, dict[str, LedgerConnection]]:
        ack = self._wanted.ack
        while True:
            writable, read_only = await self.store.read_bookies()
            suspects = self._quarantine.ids(asyncio.get_running_loop().time())
            draw = self._runtime.entropy.randbelow(_DRAWS)
            choice = choose_ensemble(writable, self._wanted, suspects, draw)
            if choice is None:
                alive = f"{len(writable)} bookies take entries, and {ack} have to have each"
                if len(writable) + len(read_only) >= ack:
                    raise StorageFullError(f"{alive}; {len(read_only)} more can only be read")
                raise WalWriteError(f"{alive}: start more bookies")
            if choice.quorums.ensemble <= more_than:
                return None, {}
            connections = await connect_bookies(choice.bookies, self.store.connect)
            missing = {bookie.id for bookie in choice.bookies} - connections.keys()
            if not missing:
                return choice, connections
            for connection in connections.values():
                connection.abort()
            for bookie in missing:
                self.suspect(bookie)
            if missing <= suspects:
                raise WalWriteError(
                    f"too few bookies take a connection: {', '.join(sorted(missing))} do not, and {ack} have "
                    "to have each entry"
                )
