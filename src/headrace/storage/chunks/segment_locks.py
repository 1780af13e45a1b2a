"""One modifying operation per segment at a time, in the order of arrival."""

from __future__ import annotations

import asyncio
from collections import deque
from types import TracebackType


class SegmentLocks:
    """Locks by name; those that nobody holds do not exist."""

    def __init__(self) -> None:
        self._held: dict[str, deque[asyncio.Future[None]]] = {}
        """Who waits, by name of what is held."""

    def __len__(self) -> int:
        return len(self._held)

    def __contains__(self, name: str) -> bool:
        return name in self._held

    def hold(self, *names: str) -> HeldSegments:
        """Hold the locks of all ``names``; in one order, so that two holders cannot wait for each other."""
        return HeldSegments(self, names if len(names) == 1 else tuple(sorted(set(names))))

    async def acquire(self, name: str) -> None:
        waiting = self._held.get(name)
        if waiting is None:
            self._held[name] = deque()
            return
        turn = asyncio.get_running_loop().create_future()
        waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.release(name)  # it was handed to us at the moment in which we gave up
            raise

    def release(self, name: str) -> None:
        """Hand the lock to whoever has waited longest."""
        waiting = self._held[name]
        while waiting:
            turn = waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        del self._held[name]


class HeldSegments:
    """Locks held within an ``async with``."""

    __slots__ = ("_locks", "_names")

    def __init__(self, locks: SegmentLocks, names: tuple[str, ...]) -> None:
        self._locks = locks
        self._names = names

    async def __aenter__(self) -> None:
        held: list[str] = []
        try:
            for name in self._names:
                await self._locks.acquire(name)
                held.append(name)
        except BaseException:
            for name in held:
                self._locks.release(name)
            raise

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for name in self._names:
            self._locks.release(name)
