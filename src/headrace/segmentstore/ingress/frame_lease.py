"""The lease of one connection for a wire frame that does not fit its buffer.

It stays with the connection for the next frame until other leases need its bytes: fresh memory for each of
many large appends would cost a seventh of what the server does for them.
"""

from __future__ import annotations

import asyncio

from headrace.segmentstore.ingress.blocked import MEMORY
from headrace.segmentstore.ingress.budget import ByteBudget, Lane, Lease
from headrace.segmentstore.ingress.home import ServedConnection
from headrace.wire.frames import RECEIVE_SLACK_BYTES, FrameDecoder


class FrameLease:
    """Between the buffer of a connection and the budget of all."""

    __slots__ = ("_budget", "_connection", "_decoder", "_frame_at", "_loop", "_rests", "lease")

    def __init__(self, budget: ByteBudget, connection: ServedConnection, decoder: FrameDecoder) -> None:
        self._loop = asyncio.get_running_loop()
        self._budget = budget
        self._connection = connection
        self._decoder = decoder
        self.lease: Lease | None = None
        self._frame_at = 0
        """Where in the stream the frame begins that it is for."""
        self._rests = False

    def reserve(self, lane: Lane) -> bool:
        """Say whether the rest of the frame that has begun may be received; if not, MEMORY blocks until then.

        To be called behind :meth:`on_taken`. The head of a frame is only a promise: nothing is consumed
        before the buffer would grow for what has arrived.
        """
        decoder = self._decoder
        if decoder.fits(decoder.wanted):
            return True
        size, lease = decoder.wanted + RECEIVE_SLACK_BYTES, self.lease
        if lease is not None and self._rests:
            self._rests = False
            if lane is Lane.FRAMES and self._budget.resume(lease, size):
                lease.since = self._loop.time()
            else:
                self._budget.end(lease)
                decoder.give_back()
                lease = None
        self._frame_at = decoder.taken_bytes
        if lease is not None:
            return self._budget.grow(lease, size)
        self.lease = self._budget.begin(lane, self._connection, size, self._on_granted)
        self.lease.since = self._loop.time()
        return not self.lease.waits

    def holds(self, frame_at: int) -> bool:
        """Whether the lease is that of the frame which begins there in the stream."""
        return self.lease is not None and not self._rests and self._frame_at == frame_at

    def extend(self, size_bytes: int) -> bool:
        """Say whether its frame may be decoded to so many bytes; if not, MEMORY blocks until then."""
        assert self.lease is not None
        self.lease.since = None
        return self._budget.grow(self.lease, size_bytes)

    def hand_over(self, size_bytes: int) -> Lease:
        """Return the lease, which is that of the decoded request from now on; its frame was just taken."""
        lease, self.lease = self.lease, None
        assert lease is not None
        self._decoder.give_back()
        self._budget.shrink(lease, size_bytes)
        return lease

    def on_taken(self) -> None:
        """Everything was dispatched that could be, perhaps the frame that has the lease."""
        if self.lease is not None and not self._rests and self._decoder.taken_bytes != self._frame_at:
            self._rests = True
            self._budget.rest(self.lease, self._on_wanted)

    def _on_wanted(self) -> None:
        self.lease = None
        self._rests = False
        # Not at once: this connection may be in the middle of taking a frame, and put that back.
        self._loop.call_soon(self._decoder.give_back)

    def _on_granted(self) -> None:
        if self.lease is not None:
            self.lease.since = self._loop.time()
        # Not at once: another lease is being ended.
        self._loop.call_soon(self._connection.unblock, MEMORY)

    def close(self) -> None:
        """The connection is lost."""
        if self.lease is not None:
            self._budget.end(self.lease)
            self.lease = None
