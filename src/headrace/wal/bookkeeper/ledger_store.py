"""BookKeeper's own nodes over a session of the coordination: ledgers are made, changed and deleted there."""

from __future__ import annotations

import contextlib
from typing import Protocol

from headrace.coordination.node import Node
from headrace.errors import (
    DataCorruptionError,
    MetadataConflictError,
    NoSuchNodeError,
    UnknownOutcomeError,
)
from headrace.model.endpoint import Endpoint
from headrace.wal.bookkeeper.bookie_connection import Connect, connect_bookie
from headrace.wal.bookkeeper.ledger_metadata import LedgerMetadata, encode_ledger
from headrace.wal.bookkeeper.ledger_nodes import (
    ID_SEED,
    LAYOUT,
    READ_ONLY,
    WRITABLE,
    Bookie,
    bookie_names,
    check_layout,
    decode_bookie,
    decode_ledger_id,
    endpoint_of,
    ledger_path,
)


class Nodes(Protocol):
    """What is used of a session; see ``headrace.coordination.contract.Session``."""

    async def create(
        self, path: str, data: bytes, *, ephemeral: bool = False, sequential: bool = False
    ) -> str: ...

    async def read(self, path: str) -> Node | None: ...

    async def children(self, path: str) -> list[str]: ...

    async def write(self, path: str, data: bytes, version: int) -> int: ...

    async def delete(self, path: str, version: int) -> None: ...


class LedgerStore:
    """Ledgers below one root, which ``nodes`` have as their own, and the way to their bookies.

    Every call raises UnknownOutcomeError when a read has no answer, and what a session raises when it is
    over.
    """

    def __init__(self, nodes: Nodes, connect: Connect = connect_bookie) -> None:
        self.nodes = nodes
        self.connect = connect

    async def check(self) -> None:
        """Check that BookKeeper has its ledgers here.

        Raises:
            InvalidArgumentError: there is none.
            UnsupportedError: it names its nodes otherwise.
        """
        node = await self.nodes.read(LAYOUT)
        check_layout(None if node is None else node.data)

    async def read_bookies(self) -> tuple[list[Bookie], list[Bookie]]:
        """Return the bookies that are alive: those that take adds, and those that do not."""
        return await self._read_bookies(WRITABLE), await self._read_bookies(READ_ONLY)

    async def _read_bookies(self, place: str) -> list[Bookie]:
        found = []
        for name in bookie_names(await self.nodes.children(place)):
            node = await self.nodes.read(f"{place}/{name}")
            if node is not None:
                try:
                    found.append(decode_bookie(name, node.data))
                except DataCorruptionError:
                    continue  # an id of a later release: others are of use
        return found

    async def find_endpoints(self, bookies: set[str]) -> dict[str, Endpoint]:
        """Return where ``bookies`` are, alive or not, as far as anybody says it."""
        writable, read_only = await self.read_bookies()
        found = {bookie.id: bookie.endpoint for bookie in (*writable, *read_only)}
        for name in bookies - found.keys():
            try:
                found[name] = endpoint_of(name)
            except DataCorruptionError:
                continue
        return {name: endpoint for name, endpoint in found.items() if name in bookies}

    async def create(self, ledger: LedgerMetadata) -> int:
        """Make a ledger; return its id.

        Raises:
            UnknownOutcomeError: a ledger that nobody knows may have been made.
        """
        path = await self.nodes.create(ID_SEED, b"", ephemeral=True, sequential=True)
        number = decode_ledger_id(path)
        await self.nodes.create(ledger_path(number), encode_ledger(ledger))
        with contextlib.suppress(NoSuchNodeError, MetadataConflictError, UnknownOutcomeError):
            await self.nodes.delete(path, 0)  # if not, it goes with the session
        return number

    async def read(self, number: int) -> tuple[bytes, int]:
        """Return the data of the node of a ledger, and its version.

        Raises:
            DataCorruptionError: there is no such ledger.
        """
        node = await self.nodes.read(ledger_path(number))
        if node is None:
            raise DataCorruptionError(f"ledger {number} does not exist, though a log has it")
        return node.data, node.version

    async def write(self, number: int, data: bytes, version: int) -> bool:
        """Change the node of a ledger that has ``version``; return whether that is sure. Read it if not."""
        try:
            await self.nodes.write(ledger_path(number), data, version)
        except (MetadataConflictError, NoSuchNodeError, UnknownOutcomeError):
            return False
        return True

    async def delete(self, number: int) -> None:
        """Delete a ledger, whatever its version; the bookies free its space when they compact. Idempotent."""
        while True:
            node = await self.nodes.read(ledger_path(number))
            if node is None:
                return
            try:
                await self.nodes.delete(ledger_path(number), node.version)
            except (MetadataConflictError, NoSuchNodeError):
                continue
