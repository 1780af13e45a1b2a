"""The room of one connection for a frame that does not fit its buffer: asked for, used, given back."""

from __future__ import annotations

import asyncio
from typing import Protocol

from headrace.segmentstore.ingress.receive_memory import ReceiveMemory
from headrace.wire.frames import RECEIVE_SLACK_BYTES


class Receiver(Protocol):
    """The connection, as its room sees it."""

    def give_back_room(self) -> int:
        """Do with a small buffer again: others want what the large frame had that was taken.

        Returns:
            How large the buffer still has to be for what has arrived, if that is more than a small one.
        """

    def received_bytes(self) -> int:
        """Say how much has arrived until now."""

    def on_room(self) -> None:
        """The rest of the frame may be received."""

    def on_overdue(self, held_s: float) -> None:
        """Others wait for the room that this frame has had for ``held_s``."""


class FrameRoom:
    """Between a connection and the memory that it shares with all others. Runs on their loop."""

    __slots__ = (
        "_buffer_bytes",
        "_drains",
        "_frame_at",
        "_loop",
        "_memory",
        "_patience_s",
        "_receiver",
        "_stall_s",
        "_timer",
        "borrows",
    )

    def __init__(
        self,
        memory: ReceiveMemory,
        receiver: Receiver,
        *,
        buffer_bytes: int,
        patience_s: float,
        stall_s: float,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._memory = memory
        self._receiver = receiver
        self._buffer_bytes = buffer_bytes
        self._patience_s = patience_s
        self._stall_s = stall_s
        self.borrows = False
        """Whether there is room lent to this connection: then it says what it has taken."""
        self._frame_at = 0
        """Where in the stream the frame begins that has the room."""
        self._drains = False
        """Whether the room is not for a frame, but for what followed one that was taken."""
        self._timer: asyncio.TimerHandle | None = None

    def on_taken(self, frame_at: int, pending_bytes: int) -> None:
        """What can be taken now was taken, up to ``frame_at`` in the stream.

        If that moved, so was the frame that has the room, and whoever waits has its turn. What keeps this
        connection from taking more does not matter: nothing of the frame is left. Of what followed it,
        ``pending_bytes`` are.
        """
        if pending_bytes <= self._buffer_bytes if self._drains else frame_at != self._frame_at:
            self._memory.finish(self, self._loop.time())

    def reserve(self, wanted: int, frame_at: int) -> bool:
        """Say whether the rest of the next frame may be received; if not, ``on_room`` is called later.

        To be called when everything that can be taken was taken, and after :meth:`on_taken`.

        Args:
            wanted: so many bytes of the next frame, or append, are needed to go on.
            frame_at: where in the stream it begins.
        """
        if wanted <= self._buffer_bytes:
            return True
        self._frame_at = frame_at
        taken = self._memory.take(self, wanted + RECEIVE_SLACK_BYTES, self._loop.time())
        self._drains = False
        if taken:
            self.borrows = True
            return True
        self._stop_timer()
        self._set_timer()
        return False

    def received_bytes(self) -> int:
        return self._receiver.received_bytes()

    def give_back_memory(self) -> int:
        kept = self._receiver.give_back_room()
        self.borrows = self._drains = kept > 0
        return kept

    def on_memory(self) -> None:
        self.borrows = True
        self._stop_timer()
        # Not at once: somebody else is in the middle of giving it.
        self._loop.call_soon(self._receiver.on_room)

    def close(self) -> None:
        """The connection is lost."""
        self._stop_timer()
        self.borrows = False
        self._memory.leave(self, self._loop.time())

    def _set_timer(self) -> None:
        self._timer = self._loop.call_later(min(self._stall_s, self._patience_s), self._on_impatient)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _on_impatient(self) -> None:
        """Those who have had their room for long without filling it do not get more time."""
        self._set_timer()
        for borrower, held_s in self._memory.overdue(self._loop.time(), self._patience_s, self._stall_s):
            borrower.on_overdue(held_s)

    def on_overdue(self, held_s: float) -> None:
        self._receiver.on_overdue(held_s)
