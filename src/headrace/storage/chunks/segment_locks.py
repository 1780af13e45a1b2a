"""One modifying operation per segment at a time, in the order of arrival."""

from __future__ import annotations

import asyncio
from collections import deque
from types import TracebackType


class SegmentLocks:
    """Locks by name; only those that are held exist."""

    def __init__(self) -> None:
        self._held: dict[str, deque[asyncio.Future[None]]] = {}
        """The callers that wait, by the name of the held lock."""

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
        granted = asyncio.get_running_loop().create_future()
        waiting.append(granted)
        try:
            await granted
        except asyncio.CancelledError:
            if granted.done() and not granted.cancelled():
                self.release(name)  # it was granted at the moment of the cancellation
            raise

    def release(self, name: str) -> None:
        """Grant the lock to the caller that has waited longest."""
        waiting = self._held[name]
        while waiting:
            granted = waiting.popleft()
            if not granted.done():
                granted.set_result(None)
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
