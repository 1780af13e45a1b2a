"""The lease of one connection for a wire frame that does not fit its buffer.

The connection retains it for the next frame until other leases need its bytes: fresh memory for each of many
large appends would cost a seventh of their processing time.
"""

from __future__ import annotations

import asyncio

from headrace.segmentstore.ingress.blocked import MEMORY
from headrace.segmentstore.ingress.budget import ByteBudget, Lane, Lease
from headrace.segmentstore.ingress.home import ServedConnection
from headrace.wire.frames import RECEIVE_SLACK_BYTES, FrameDecoder


class FrameLease:
    """Consumes the byte budget for the buffer of a connection."""

    __slots__ = ("_budget", "_connection", "_decoder", "_frame_at", "_is_idle", "_loop", "lease")

    def __init__(self, budget: ByteBudget, connection: ServedConnection, decoder: FrameDecoder) -> None:
        self._loop = asyncio.get_running_loop()
        self._budget = budget
        self._connection = connection
        self._decoder = decoder
        self.lease: Lease | None = None
        self._frame_at = 0
        """Where in the stream the frame of the lease begins."""
        self._is_idle = False

    def reserve(self, lane: Lane) -> bool:
        """Return whether the rest of the frame may be received; if not, MEMORY blocks until then.

        To be called after :meth:`on_taken`. The head of a frame proves nothing: the budget is consumed only
        when the buffer has to grow for bytes that have arrived.
        """
        decoder = self._decoder
        if decoder.fits(decoder.wanted):
            return True
        size, lease = decoder.wanted + RECEIVE_SLACK_BYTES, self.lease
        if lease is not None and self._is_idle:
            self._is_idle = False
            if lane is Lane.FRAMES and self._budget.resume(lease, size):
                lease.since = self._loop.time()
            else:
                self._budget.end(lease)
                decoder.shrink()
                lease = None
        self._frame_at = decoder.taken_bytes
        if lease is not None:
            return self._budget.grow(lease, size)
        self.lease = self._budget.begin(lane, self._connection, size, self._on_granted)
        self.lease.since = self._loop.time()
        return not self.lease.waits

    def is_lease_of(self, frame_at: int) -> bool:
        """Whether the lease is that of the frame which begins there in the stream."""
        return self.lease is not None and not self._is_idle and self._frame_at == frame_at

    def extend(self, size_bytes: int) -> bool:
        """Return whether its frame may be decoded to ``size_bytes``; if not, MEMORY blocks until then."""
        assert self.lease is not None
        self.lease.since = None
        return self._budget.grow(self.lease, size_bytes)

    def hand_over(self, size_bytes: int) -> Lease:
        """Return the lease, which belongs to the decoded request from now on; its frame was just taken."""
        lease, self.lease = self.lease, None
        assert lease is not None
        self._decoder.shrink()
        self._budget.shrink(lease, size_bytes)
        return lease

    def on_taken(self) -> None:
        """Everything dispatchable was dispatched, perhaps also the frame of the lease."""
        if self.lease is not None and not self._is_idle and self._decoder.taken_bytes != self._frame_at:
            self._is_idle = True
            self._budget.set_idle(self.lease, self._on_ended)

    def _on_ended(self) -> None:
        self.lease = None
        self._is_idle = False
        # Not at once: this connection may be taking a frame, and may put it back.
        self._loop.call_soon(self._decoder.shrink)

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
