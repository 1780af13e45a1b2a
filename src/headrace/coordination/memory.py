"""A coordinator in the memory of one process, for any number of sessions in it.

For a server that is the whole cluster: its members and their coordinator die together, so nothing expires.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator

from headrace.coordination.lease import Lease
from headrace.coordination.node import Node, check_path
from headrace.coordination.tree import PERSISTENT, Changes, NodeTree
from headrace.errors import SessionExpiredError


class MemoryCoordinator:
    """Nodes, and the watches of all sessions. Used on one event loop."""

    def __init__(self) -> None:
        self._tree = NodeTree()
        self._sessions = 0
        self._watches: dict[tuple[str, bool], dict[_Watch, None]] = {}

    async def open(self) -> MemorySession:
        self._sessions += 1
        return MemorySession(self, self._tree, self._sessions)

    def tell(self, changes: Changes) -> None:
        """Notify the watches of what was changed."""
        for paths, is_list in ((changes.nodes, False), (changes.lists, True)):
            for path in paths:
                for watch in self._watches.get((path, is_list), ()):
                    watch.changed.set()

    def add_watch(self, watch: _Watch) -> None:
        self._watches.setdefault(watch.key, {})[watch] = None

    def remove_watch(self, watch: _Watch) -> None:
        watches = self._watches[watch.key]
        del watches[watch]
        if not watches:
            del self._watches[watch.key]

    def watches_of(self, session: MemorySession) -> Iterator[_Watch]:
        """Yield the watches that ``session`` has."""
        for watches in self._watches.values():
            yield from (watch for watch in watches if watch.session is session)


class _Watch:
    """Something that one session waits for; due at once."""

    __slots__ = ("changed", "key", "session")

    def __init__(self, session: MemorySession, path: str, *, is_list: bool) -> None:
        check_path(path)
        self.session = session
        self.key = (path, is_list)
        self.changed = asyncio.Event()
        self.changed.set()


class MemorySession:
    """One session; see the contract."""

    def __init__(self, coordinator: MemoryCoordinator, tree: NodeTree, number: int) -> None:
        self.lease = Lease()
        self._coordinator = coordinator
        self._tree = tree
        self._number = number
        self._ended = False

    async def create(
        self, path: str, data: bytes, *, ephemeral: bool = False, sequential: bool = False
    ) -> str:
        self._check()
        owner = self._number if ephemeral else PERSISTENT
        path, changes = self._tree.create(path, data, owner=owner, sequential=sequential)
        self._coordinator.tell(changes)
        return path

    async def read(self, path: str) -> Node | None:
        self._check()
        return self._tree.read(path)

    async def children(self, path: str) -> list[str]:
        self._check()
        return self._tree.children(path)

    async def write(self, path: str, data: bytes, version: int) -> int:
        self._check()
        new, changes = self._tree.write(path, data, version)
        self._coordinator.tell(changes)
        return new

    async def delete(self, path: str, version: int) -> None:
        self._check()
        self._coordinator.tell(self._tree.delete(path, version))

    def watch(self, path: str) -> AsyncIterator[None]:
        return self._watch(_Watch(self, path, is_list=False))

    def watch_children(self, path: str) -> AsyncIterator[None]:
        return self._watch(_Watch(self, path, is_list=True))

    async def close(self) -> None:
        self.expire()

    def expire(self) -> None:
        """End the session, as its member or as the coordinator, and delete its nodes. Idempotent."""
        if self._ended:
            return
        self._ended = True
        self.lease.end()
        for watch in self._coordinator.watches_of(self):
            watch.changed.set()
        self._coordinator.tell(self._tree.delete_of(self._number))

    async def _watch(self, watch: _Watch) -> AsyncIterator[None]:
        self._coordinator.add_watch(watch)
        try:
            while True:
                await watch.changed.wait()
                watch.changed.clear()
                self._check()
                yield
        finally:
            self._coordinator.remove_watch(watch)

    def _check(self) -> None:
        if self._ended:
            raise SessionExpiredError("the session with the coordinator is over")
