"""The node of a log, as whoever took the log changes it: by compare-and-set, one change after another."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from headrace.errors import (
    FencedOutError,
    MetadataConflictError,
    NodeExistsError,
    NoSuchNodeError,
    UnknownOutcomeError,
)
from headrace.wal.bookkeeper.ledger_store import Nodes
from headrace.wal.bookkeeper.log_changes import check_owner, take_log
from headrace.wal.bookkeeper.log_node import LogNode, decode_log, encode_log


class OwnedLog:
    """The log of ``container``, whose node is at ``path``. Take it first."""

    def __init__(self, nodes: Nodes, path: str, container: int) -> None:
        self.path = path
        self.node = LogNode(container)
        """As it was read or written last."""
        self._nodes = nodes
        self._version = 0
        self._epoch = 0
        self._changing = asyncio.Lock()

    async def take(self) -> LogNode:
        """Become its owner; make it if there is none.

        Raises:
            DataCorruptionError: its node is damaged.
        """
        while True:
            await self._read()
            try:
                await self._write(take_log(self.node))
            except (MetadataConflictError, NoSuchNodeError, UnknownOutcomeError):
                continue  # another one may have taken it, under the same epoch: take the next one
            self._epoch = self.node.container_epoch
            return self.node

    async def check(self) -> None:
        """Raises FencedOutError: a newer owner has taken it, or it was deleted."""
        async with self._changing:
            await self._read_own()

    async def change(self, change: Callable[[LogNode], LogNode]) -> LogNode:
        """Change the node; return what it is then. ``change`` may be called again, with what it made, too.

        Raises:
            FencedOutError: as :meth:`check`; nothing was changed.
        """
        async with self._changing:
            while True:
                wanted = change(self.node)
                if wanted == self.node:
                    return wanted
                try:
                    await self._write(wanted)
                except (MetadataConflictError, NoSuchNodeError, UnknownOutcomeError):
                    await self._read_own()
                else:
                    return wanted

    async def _write(self, node: LogNode) -> None:
        self._version = await self._nodes.write(self.path, encode_log(node), self._version)
        self.node = node

    async def _read(self) -> None:
        container = self.node.container
        while (found := await self._nodes.read(self.path)) is None:
            try:
                await self._nodes.create(self.path, encode_log(LogNode(container)))
            except (NodeExistsError, UnknownOutcomeError):
                continue
        self.node, self._version = decode_log(found.data, container), found.version

    async def _read_own(self) -> None:
        found = await self._nodes.read(self.path)
        node = None if found is None else decode_log(found.data, self.node.container)
        self.node = check_owner(node, self._epoch)
        assert found is not None
        self._version = found.version

    async def is_taken(self) -> bool:
        """Whether a newer owner has taken it."""
        try:
            await self.check()
        except FencedOutError:
            return True
        return False
