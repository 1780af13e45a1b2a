"""One client's connection: receives into one buffer, stops reading when it must, closes in order.

Received bytes go to the :class:`Dispatcher`. While it is blocked, nothing is read from the socket, unless it
only yields to the loop. Replies are sent by the :class:`Outbox`.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any, cast

from headrace.errors import CorruptionError, InvalidArgumentError, ProtocolError, StorageReadError
from headrace.segmentstore.ingress.blocked import CLOSING, OUTBOX, YIELDING, names_of
from headrace.segmentstore.ingress.budget import Lease
from headrace.segmentstore.ingress.dispatcher import Dispatcher
from headrace.segmentstore.ingress.home import ConnectionHome
from headrace.segmentstore.ingress.outbox import Outbox
from headrace.segmentstore.ingress.reply_mapping import question_of, reply_to
from headrace.segmentstore.ingress.transient_segments import TransientSegments
from headrace.wire.commands.kinds import Request
from headrace.wire.frames import encode

_logger = logging.getLogger(__name__)

_STALLS_OF_OURS = 4
"""A frame that the server does not accept, since a container is stalled, may wait for so many times
``stall_s``. Then its connection is closed: it would block the large frames of all others.
"""


class Connection(asyncio.BufferedProtocol):
    """The driver of one connection. Runs on the store's loop."""

    def __init__(self, home: ConnectionHome) -> None:
        self._home = home
        self._config = config = home.config
        self._totals = home.totals
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._reading = True
        self._eof_received = False
        self._closing_timer: asyncio.TimerHandle | None = None
        self._busy_writers = 0
        self.peer = ""
        self.transients = TransientSegments(home.store, config.transients_max)
        self._outbox = Outbox(config.write_buffer_bytes_max, self._on_drained, home.budget)
        self._dispatcher = Dispatcher(home, self, self._outbox)
        self._buffer_bytes = home.receive_buffer_bytes()

    # -------------------------------------------------------------------------------------- life

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # some loops have types of their own
        self.peer = str(transport.get_extra_info("peername"))
        self._outbox.open(self._transport)
        if not self._home.on_opened(self, transport):
            self._transport.abort()

    def eof_received(self) -> bool:
        """The client sends nothing more: the replies that it is owed are still sent.

        Received bytes are still dispatched if the connection only yields to the loop. If anything else
        blocks them they are not: the client may have reconnected and sent them again.
        """
        self._eof_received = True
        self._close_if_all_dispatched()
        return True

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - why does not matter
        self._dispatcher.blocked |= CLOSING
        if self._closing_timer is not None:
            self._closing_timer.cancel()
        self._transport = None
        self._outbox.close()
        self._dispatcher.close()
        self._home.on_lost(self)

    def pause_writing(self) -> None:
        self._outbox.on_pause()

    def resume_writing(self) -> None:
        self._outbox.on_resume()

    # -------------------------------------------------------------------------------------- receiving

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - the buffer knows better
        return self._dispatcher.decoder.get_buffer()

    def buffer_updated(self, nbytes: int) -> None:
        dispatcher = self._dispatcher
        dispatcher.decoder.buffer_updated(nbytes)
        self._totals.bytes_received += nbytes
        if not dispatcher.blocked:
            self._dispatch()
        elif dispatcher.decoder.pending_bytes >= self._buffer_bytes:
            self._set_reading()

    def _dispatch(self) -> None:
        """Dispatch everything dispatchable."""
        dispatcher = self._dispatcher
        try:
            dispatcher.dispatch()
        except ProtocolError as error:
            self._totals.violations += 1
            self.close_after_replies(f"protocol violation: {error}")
        except Exception:  # a bug of ours: only this connection ends
            _logger.exception("connection %s failed", self.peer)
            self.close_after_replies("internal error")
        dispatcher.reserve()
        if dispatcher.blocked & YIELDING:
            self._loop.call_soon(self.unblock, YIELDING)
        self._close_if_all_dispatched()
        self._set_reading()

    def _close_if_all_dispatched(self) -> None:
        if self._eof_received and self._dispatcher.blocked != YIELDING:
            self._begin_closing()

    def _set_reading(self) -> None:
        """Read from the socket exactly while received bytes can be dispatched.

        Yielding to the loop does not count, unless more is received meanwhile than is dispatched.
        """
        blocked = self._dispatcher.blocked
        readable = not blocked & ~YIELDING
        if readable and blocked:
            # A read into a full buffer would grow it.
            pending_max = self._buffer_bytes if self._reading else self._buffer_bytes // 2
            readable = self._dispatcher.decoder.pending_bytes < pending_max
        if readable == self._reading:
            return
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        self._reading = readable
        if readable:
            transport.resume_reading()
        else:
            transport.pause_reading()

    # ---------------------------------------------------------------------------------- from its parts

    def unblock(self, reason: int) -> None:
        """``reason`` no longer blocks the dispatch of received bytes."""
        dispatcher = self._dispatcher
        dispatcher.blocked &= ~reason
        if not dispatcher.blocked:
            self._dispatch()

    def _on_drained(self) -> None:
        if self._dispatcher.blocked & OUTBOX:
            self.unblock(OUTBOX)

    def send(self, frame: bytes) -> None:
        self._outbox.send(frame)

    def on_busy(self, change: int) -> None:
        self._busy_writers += change
        self.on_answered()

    def on_answered(self) -> None:
        """A close may have waited for this answer."""
        if self._dispatcher.blocked & CLOSING:
            self._maybe_close()

    def on_error(self, command: Request, error: Exception) -> None:
        """A request failed: answer, or close if there is no answer to that."""
        question = question_of(command)
        if isinstance(error, StorageReadError):
            self._home.report_unread(question.segment, error)
        reply = reply_to(error, question)
        if reply is None:
            reason = f"{type(command).__name__} failed: {error}"
            if isinstance(error, CorruptionError):
                _logger.error("damaged data: %s", reason)  # an operator has to act; the peer only retries
            self.close_after_replies(reason)
            return
        try:
            self._outbox.send(encode(reply))
        except InvalidArgumentError as unencodable:
            self.close_after_replies(f"a reply cannot be encoded: {unencodable}")

    @property
    def bytes_sent(self) -> int:
        return self._outbox.statistics().bytes_sent

    def moved_bytes(self, lease: Lease) -> int:
        if self._dispatcher.owns(lease):
            return self._dispatcher.decoder.received_bytes
        return self._outbox.count_sent()

    def on_overdue(self, lease: Lease, age_s: float) -> None:
        """Other connections wait for a lease of this client, of a frame not sent or of replies not taken."""
        of_frame = self._dispatcher.owns(lease)
        blocked = self._dispatcher.blocked
        is_ours = of_frame and blocked & ~(YIELDING | OUTBOX)
        if is_ours and age_s < _STALLS_OF_OURS * self._config.stall_s:
            return
        if not blocked & CLOSING:
            self._totals.connections_stalled += 1
        what = (
            "a frame that does not arrive, or is not accepted" if of_frame else "replies that are not taken"
        )
        self.close_after_replies(f"stalled: other connections wait for the memory of {what}")
        if not of_frame:
            self._abort()

    @property
    def is_closing(self) -> bool:
        return bool(self._dispatcher.blocked & CLOSING)

    @property
    def is_lost(self) -> bool:
        return self._outbox.is_closed

    # -------------------------------------------------------------------------------------- closing

    def close_after_replies(self, reason: str) -> None:
        """Accept nothing more, wait for owed replies (not for reads at the tail), send them, close."""
        if not self._dispatcher.blocked & CLOSING:
            _logger.info("connection %s is closed: %s", self.peer, reason)
            self._begin_closing()

    def _begin_closing(self) -> None:
        dispatcher = self._dispatcher
        if dispatcher.blocked & CLOSING:
            return
        dispatcher.blocked |= CLOSING
        dispatcher.reads.end(self._maybe_close)
        dispatcher.requests.stop()
        self._closing_timer = self._loop.call_later(self._config.drain_s, self._abort)
        self._set_reading()
        self._loop.call_soon(self._maybe_close)

    def _maybe_close(self) -> None:
        parts = self._dispatcher
        if self._busy_writers or parts.requests.running or parts.reads.waiting or parts.writers.setting_up:
            return
        if self._transport is None:
            return
        if not self._transport.is_closing():
            self._outbox.flush()
            self._transport.close()  # sends what it has; the timer ends a client that takes nothing

    def _abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def statistics(self) -> dict[str, Any]:
        """The state of this connection, for the console."""
        parts = self._dispatcher
        return {
            "peer": self.peer,
            "blocked": names_of(parts.blocked),
            "writers": parts.writers.count,
            "writers_in_flight": self._busy_writers,
            "requests_running": parts.requests.running,
            "reads_waiting": parts.reads.waiting,
            "transients": self.transients.count,
            "buffer_bytes": len(parts.decoder.buffer),
        }

    def check(self) -> None:
        """Assert the invariants of a connection."""
        self._dispatcher.check()
        assert self._busy_writers >= self._dispatcher.writers.busy_count
