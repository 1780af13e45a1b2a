"""The nodes of the live members of one kind, as a copy that keeps up by watches."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Generic, TypeVar

from headrace.cluster.session_works import ask_until_known
from headrace.coordination.contract import Session
from headrace.runtime.entropy import Entropy

N = TypeVar("N")


async def follow(changes: AsyncIterator[None], entropy: Entropy, read: Callable[[], Awaitable[None]]) -> None:
    """Call ``read`` until it is answered, whenever something has changed."""
    async for _ in changes:
        await ask_until_known(entropy, read)


class WatchedMembers(Generic[N]):
    """Members by id. Used on one event loop, with one session at a time."""

    def __init__(
        self, parent: str, decode: Callable[[bytes], N], entropy: Entropy, on_change: Callable[[], None]
    ) -> None:
        """``parent`` is the path above the nodes; ``on_change`` is called whenever one was read."""
        self.nodes: dict[str, N] = {}
        self._parent = parent
        self._decode = decode
        self._entropy = entropy
        self._on_change = on_change

    async def follow(self, session: Session) -> None:
        """Keep up until the session is over.

        Raises:
            SessionExpiredError: it is.
        """
        async with asyncio.TaskGroup() as group:
            followed: set[str] = set()

            async def read() -> None:
                ids = set(await session.children(self._parent))
                for member in sorted(ids - followed):
                    group.create_task(self._follow_one(session, member))
                for member in [*self.nodes]:
                    if member not in ids:
                        self._learn(member, None)
                followed.clear()
                followed.update(ids)

            await follow(session.watch_children(self._parent), self._entropy, read)

    async def _follow_one(self, session: Session, member: str) -> None:
        """Follow one member until its node is gone: an id does not come back."""
        path = f"{self._parent}/{member}"

        async def read() -> None:
            node = await session.read(path)
            self._learn(member, None if node is None else self._decode(node.data))

        async for _ in session.watch(path):
            await ask_until_known(self._entropy, read)
            if member not in self.nodes:
                return

    def _learn(self, member: str, node: N | None) -> None:
        if node is not None:
            self.nodes[member] = node
        else:
            self.nodes.pop(member, None)
        self._on_change()
