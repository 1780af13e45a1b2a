"""Room for one large reply in a memory that all connections share: asked for, handed over, given back."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

from headrace.segmentstore.ingress.admission import Admission


class ReplyRoom:
    """What one question has for its reply: from before that is looked for until it was handed over."""

    __slots__ = ("_entered", "_memory", "_wanted_bytes", "size_bytes")

    def __init__(self, memory: Admission) -> None:
        self._memory = memory
        self._wanted_bytes = 0
        self._entered: asyncio.Future[None] | None = None
        self.size_bytes = 0
        """How much it has now."""

    def take_at_once(self, size_bytes: int) -> bool:
        """Have room now and say so, or none."""
        if not self._memory.enter_at_once(size_bytes):
            return False
        self.size_bytes = size_bytes
        return True

    async def take(self, size_bytes: int) -> None:
        """Wait in line for room. There is none if :meth:`give_up` came first."""
        self._wanted_bytes = size_bytes
        self._entered = entered = asyncio.get_running_loop().create_future()
        if self._memory.enter(size_bytes, self._on_entered):
            self._on_entered()
        try:
            await entered
        except asyncio.CancelledError:
            self._memory.leave_line(self._on_entered)
            raise

    def _on_entered(self) -> None:
        self.size_bytes = self._wanted_bytes
        self._wake()

    def give_up(self) -> None:
        """Nobody wants the reply any more: leave the line."""
        self._memory.leave_line(self._on_entered)
        self._wake()

    def _wake(self) -> None:
        if self._entered is not None and not self._entered.done():
            self._entered.set_result(None)

    def hand_over(self, size_bytes: int) -> Callable[[], None]:
        """Keep ``size_bytes`` of the room; return what gives them back. The rest is given back now."""
        spare, self.size_bytes = self.size_bytes - size_bytes, 0
        self._memory.leave(spare)
        return partial(self._memory.leave, size_bytes)

    def give_back(self) -> None:
        """Have no room. Idempotent."""
        size_bytes, self.size_bytes = self.size_bytes, 0
        if size_bytes:
            self._memory.leave(size_bytes)
