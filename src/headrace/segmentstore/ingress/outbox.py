"""Sends the replies of a connection: in order, one write per iteration of the loop, views without a copy.

The transport reports *any* unsent byte. So the outbox knows when to release views of the cache, and whether
its client takes replies too slowly; then the connection stops reading requests.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from headrace.limits import KIB
from headrace.runtime.open_file import FileSpan
from headrace.security.tls_transport import TlsTransport
from headrace.segmentstore.contract import ReadResult
from headrace.segmentstore.ingress.budget import ByteBudget, Lease
from headrace.segmentstore.ingress.file_sender import CAN_SEND_FILES, FileSender

JOIN_BYTES_MAX: Final = 32 * KIB
"""Answers up to this size are copied and joined: a system call costs more."""

SPAN_BYTES_MIN: Final = 256 * KIB
"""Answers from this size on are sent out of the file that they were read from, if there is one."""

SMALL_BYTES_MAX: Final = 256 * KIB
"""Bytes of small answers that wait for the end of an iteration; more are written, and counted, at once."""

PIECE_BYTES_MIN: Final = 16 * KIB
"""Pieces of larger answers below this size are joined with their neighbours, for the same reason."""

UNSENT_WRITES_MAX: Final = 1024
"""Writes after the first unsent one. Transports of asyncio walk the queue of these at each further one."""


@dataclass(slots=True)
class OutboxStatistics:
    """Counters since the start, and results whose views are unsent now."""

    bytes_sent: int = 0
    writes: int = 0
    bytes_of_files: int = 0
    """Of ``bytes_sent``: sent by the system out of files, without a copy."""

    pauses: int = 0
    results_held: int = 0


class Outbox:
    """The sending half of one connection."""

    __slots__ = (
        "_budget",
        "_bytes_max",
        "_charged_bytes",
        "_clogged",
        "_clogged_at_write",
        "_encrypts",
        "_files",
        "_frames",
        "_large",
        "_large_bytes",
        "_loop",
        "_on_drained",
        "_scheduled",
        "_sends_files",
        "_slot_taken",
        "_small_bytes",
        "_statistics",
        "_transport",
        "_unsent_results",
        "_waiters",
        "_writes_vectors",
    )

    def __init__(self, bytes_max: int, on_drained: Callable[[], None], budget: ByteBudget) -> None:
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._bytes_max = bytes_max
        self._on_drained = on_drained
        self._budget = budget
        self._charged_bytes = 0
        """Bytes charged there for this connection."""
        self._frames: list[bytes | memoryview] = []
        self._small_bytes = 0
        self._scheduled = False
        self._clogged = False
        self._clogged_at_write = 0
        self._unsent_results: deque[tuple[int, ReadResult]] = deque()
        """Results whose views may be unsent, each with the position in the stream where its answer ends."""
        self._large: deque[tuple[int, Lease]] = deque()
        """Leases of unsent large replies, each with the position in the stream where its reply ends."""
        self._large_bytes = 0
        self._waiters: deque[asyncio.Future[None]] = deque()
        self._slot_taken = False
        self._encrypts = False
        self._writes_vectors = False
        self._sends_files = False
        self._files: FileSender | None = None
        self._statistics = OutboxStatistics()

    def open(self, transport: asyncio.Transport) -> None:
        """Send over ``transport`` from now on."""
        transport.set_write_buffer_limits(high=0)
        self._transport = transport
        self._encrypts = isinstance(transport, TlsTransport)
        # Not with asyncio's transports: up to 3.11 they join the pieces, which copies; in 3.12 and 3.13 they
        # may not report unsent pieces.
        is_of_uvloop = type(transport).__module__.startswith("uvloop")
        self._writes_vectors = is_of_uvloop or self._encrypts
        self._sends_files = CAN_SEND_FILES and is_of_uvloop  # TLS needs every byte to pass through

    @property
    def full(self) -> bool:
        """Whether so much is unsent that no further request should be dispatched."""
        if not self._clogged or self._transport is None:
            return False
        unsent = self._count_unsent()
        return (
            unsent > (0 if self._budget.unsent_tight else self._bytes_max)
            or self._statistics.writes - self._clogged_at_write > UNSENT_WRITES_MAX
        )

    @property
    def is_closed(self) -> bool:
        """Whether the connection is lost: nothing is sent any more."""
        return self._transport is None

    @property
    def tight(self) -> bool:
        """Whether all connections together have so much unsent that answers should be small."""
        return self._budget.unsent_tight

    # -------------------------------------------------------------------------------------- sending

    def send(self, frame: bytes) -> None:
        """Send a frame behind everything sent before, at the end of this iteration of the loop."""
        self._frames.append(frame)
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._flush_scheduled)

    def send_reply(self, frame: bytes) -> None:
        """Do as :meth:`send` does, but at once if much waits for the end of the iteration."""
        self.send(frame)
        self._small_bytes += len(frame)
        if self._small_bytes > SMALL_BYTES_MAX:
            self.flush()  # else ``full`` would not count it

    def send_large(self, frame: bytes, lease: Lease) -> None:
        """Send a frame now, behind everything sent before.

        ``lease`` is ended when its last byte is sent, until then all of it is in memory, or when the
        connection is lost.
        """
        if self._transport is None or self._transport.is_closing():
            self._budget.end(lease)
            return
        self.flush()
        self._write(frame)
        self._large.append((self._statistics.bytes_sent, lease))
        self._large_bytes += lease.size
        self._count_unsent()

    def send_read(self, head: bytes, result: ReadResult, trailer: bytes) -> None:
        """Send an answer around the views of ``result``, which is released once they are sent."""
        if self._transport is None:
            result.release()
            return
        frames = self._frames
        frames.append(head)
        if result.length <= JOIN_BYTES_MAX:
            frames.append(result.to_bytes())
            self.send(trailer)
            self._small_bytes += result.length
            if self._small_bytes > SMALL_BYTES_MAX:
                self.flush()
        else:
            try:
                if result.span is None or not self._send_span(result, result.span, trailer):
                    self._write_pieces(result.pieces, trailer)
            finally:
                if self._encrypts:
                    result.release()  # the transport has an encrypted copy
                else:
                    # Also if it failed: a part of it may be in the transport, and is counted as unsent.
                    self._unsent_results.append((self._statistics.bytes_sent, result))
            self._count_unsent()

    def _send_span(self, result: ReadResult, span: FileSpan, trailer: bytes) -> bool:
        """Send an answer out of its file; what the socket does not take now follows from memory.

        Returns:
            Whether that is possible; nothing was sent if not.
        """
        transport, frames = self._transport, self._frames
        assert transport is not None
        (piece,) = result.pieces
        if (
            not self._sends_files
            or len(piece) < SPAN_BYTES_MIN
            or transport.get_write_buffer_size()
            or transport.is_closing()
        ):
            return False
        if self._files is None:
            try:
                self._files = FileSender(transport)
            except OSError:  # no descriptor is left
                return False
        head: list[bytes | memoryview] = []
        _join(frames, head)
        sent = self._files.send(head[0], span, len(piece), trailer)
        rest: list[bytes | memoryview] = []
        at = 0
        for part in (head[0], piece, trailer):
            if sent < at + len(part):
                rest.append(memoryview(part)[max(0, sent - at) :])
            at += len(part)
        if rest:
            transport.writelines(rest)
        statistics = self._statistics
        statistics.writes += 1
        statistics.bytes_sent += at
        statistics.bytes_of_files += max(0, min(sent - len(head[0]), len(piece)))
        return True

    def _write_pieces(self, pieces: list[memoryview], trailer: bytes) -> None:
        """Write large pieces as they are, consecutive small ones joined to about ``JOIN_BYTES_MAX`` bytes.

        Where the transport can, in one system call together with the frames in front and the trailer: two
        small TCP segments around a large one add a quarter of its cost, and wake the client twice more.
        """
        small = self._frames
        parts: list[bytes | memoryview] = []
        joined_bytes = 0
        for piece in pieces:
            size = len(piece)
            if size < PIECE_BYTES_MIN:
                small.append(piece)
                joined_bytes += size
                if joined_bytes < JOIN_BYTES_MAX:
                    continue
            _join(small, parts)
            if size >= PIECE_BYTES_MIN:
                parts.append(piece)
            joined_bytes = 0
        if self._writes_vectors:
            small.append(trailer)
            _join(small, parts)
            assert self._transport is not None
            self._transport.writelines(parts)
            self._statistics.writes += 1
            self._statistics.bytes_sent += sum(map(len, parts))
        else:
            _join(small, parts)  # the list must retain no view
            for part in parts:
                self._write(part)
            self.send(trailer)

    def flush(self) -> None:
        """Write all frames sent so far now."""
        frames = self._frames
        if not frames:
            return
        data: list[bytes | memoryview] = []
        _join(frames, data)
        self._small_bytes = 0
        if self._transport is not None:
            self._write(data[0])

    def _flush_scheduled(self) -> None:
        self._scheduled = False
        self.flush()

    def _write(self, data: bytes | memoryview) -> None:
        assert self._transport is not None
        self._transport.write(data)
        self._statistics.writes += 1
        self._statistics.bytes_sent += len(data)

    def _count_unsent(self) -> int:
        """Return how many bytes are unsent, and charge those without a lease.

        Encrypted ones are a few more than they were: what counts as sent is sent.
        """
        transport = self._transport
        unsent = 0 if transport is None else transport.get_write_buffer_size()
        sent_bytes = self._statistics.bytes_sent - unsent
        large, results = self._large, self._unsent_results
        while large and large[0][0] <= sent_bytes:
            lease = large.popleft()[1]
            self._large_bytes -= lease.size
            self._budget.end(lease)
        charged = max(0, unsent - self._large_bytes)
        if charged != self._charged_bytes:
            change, self._charged_bytes = charged - self._charged_bytes, charged
            self._budget.charge_unsent(change)
        while results and results[0][0] <= sent_bytes:
            results.popleft()[1].release()
        return unsent

    def count_sent(self) -> int:
        """Return how many bytes were sent since the connection was opened."""
        return self._statistics.bytes_sent - self._count_unsent()

    # ---------------------------------------------------------------------------------- from the transport

    def on_pause(self) -> None:
        """The transport has unsent bytes."""
        self._clogged = True
        self._clogged_at_write = self._statistics.writes
        self._count_unsent()
        self._statistics.pauses += 1

    def on_resume(self) -> None:
        """The transport has sent everything."""
        self._clogged = False
        self._count_unsent()
        self._grant_send_slot()
        self._on_drained()

    # ---------------------------------------------------------------------------------- send slot

    async def wait_send_slot(self) -> None:
        """Wait, in order, until this caller may send a large answer. It calls :meth:`release_send_slot` then.

        One at a time: when a slow client has taken its bytes, only one of many waiting reads fetches its own.
        """
        waiter: asyncio.Future[None] = self._loop.create_future()
        self._waiters.append(waiter)
        self._grant_send_slot()
        try:
            await waiter
        except asyncio.CancelledError:
            if not waiter.cancelled():
                self.release_send_slot()
            raise

    def release_send_slot(self) -> None:
        """The caller has sent its answer, or has none."""
        self._slot_taken = False
        self._grant_send_slot()

    def _grant_send_slot(self) -> None:
        waiters = self._waiters
        while waiters and not self._slot_taken and not self.full:
            waiter = waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)
                self._slot_taken = True

    def close(self) -> None:
        """The connection is lost: forget what was not sent."""
        self._transport = None
        self._clogged = False
        self._count_unsent()
        if self._files is not None:
            self._files.close()
            self._files = None
        self._frames.clear()
        self.release_send_slot()

    def statistics(self) -> OutboxStatistics:
        self._statistics.results_held = len(self._unsent_results)
        return self._statistics


def _join(frames: list[bytes | memoryview], parts: list[bytes | memoryview]) -> None:
    """Move ``frames``, if there are any, into one part."""
    if frames:
        parts.append(frames[0] if len(frames) == 1 else b"".join(frames))
        frames.clear()
