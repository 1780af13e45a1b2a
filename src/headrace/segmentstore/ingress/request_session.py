"""Requests of one connection that run as tasks: everything but appends and reads."""

from __future__ import annotations

import asyncio
import logging

from headrace.errors import ClosedError, HeadraceError
from headrace.segmentstore.ingress.authorisation import check_request
from headrace.segmentstore.ingress.blocked import ADMISSION, MEMORY, REQUESTS
from headrace.segmentstore.ingress.budget import SMALL_BYTES_MAX, Lane, Lease
from headrace.segmentstore.ingress.frame_lease import FrameLease
from headrace.segmentstore.ingress.home import ConnectionHome, ServedConnection
from headrace.segmentstore.ingress.outbox import Outbox
from headrace.segmentstore.ingress.reply_mapping import question_of
from headrace.segmentstore.ingress.segment_session import Handler, SegmentSession
from headrace.segmentstore.ingress.table_replies import TableReplies
from headrace.segmentstore.ingress.table_session import TableSession
from headrace.wire import commands as c
from headrace.wire.commands.kinds import Request
from headrace.wire.frames import encode

_logger = logging.getLogger(__name__)


class RequestSession:
    """Starts requests within bounds, and sends their replies."""

    def __init__(
        self, home: ConnectionHome, connection: ServedConnection, outbox: Outbox, frame_lease: FrameLease
    ) -> None:
        self._home = home
        self._connection = connection
        self._outbox = outbox
        self._frame_lease = frame_lease
        tables = TableSession(home.store)
        self._questions = tables.questions
        self._handlers: dict[type[Request], Handler] = {
            **SegmentSession(home.store, connection.transients).handlers,
            **tables.handlers,
            **tables.questions,
        }
        self._replies = TableReplies(home, connection, outbox)
        self.running = 0
        self._next: Lease | None = None
        """The lease of the request that is started next, granted or not, unless its frame has one."""
        self._frame_at = self._size_bytes = 0
        """Where that request begins in the stream, and its size once decoded."""

    def admit(self, size_bytes: int, frame_at: int) -> int:
        """Return why the next request cannot be decoded and started yet; 0 if it has its lease.

        Args:
            size_bytes: its size once decoded.
            frame_at: where in the stream its frame begins.
        """
        if self.running >= self._home.config.requests_max:
            return REQUESTS
        self._frame_at, self._size_bytes = frame_at, size_bytes
        if self._frame_lease.is_lease_of(frame_at):
            return 0 if self._frame_lease.extend(size_bytes) else MEMORY
        if self._next is None:
            lane = Lane.SMALL_REQUESTS if size_bytes <= SMALL_BYTES_MAX else Lane.REQUESTS
            self._next = self._home.budget.begin(lane, self._connection, size_bytes, self._on_granted)
        return ADMISSION if self._next.waits else 0

    def _on_granted(self) -> None:
        # Not at once: another lease is being ended, and decoding may take long.
        asyncio.get_running_loop().call_soon(self._start_next)

    def _start_next(self) -> None:
        granted = self._next
        self._connection.unblock(ADMISSION)
        if self._next is granted:  # it was not started: something else may block it
            self._end_next()

    def _end_next(self) -> None:
        lease, self._next = self._next, None
        if lease is not None:
            self._home.budget.end(lease)

    def start(self, command: Request) -> bool:
        """Start ``command``, which was admitted. Return False if it was answered at once."""
        if self._frame_lease.is_lease_of(self._frame_at):
            lease: Lease | None = self._frame_lease.hand_over(self._size_bytes)
        else:
            lease, self._next = self._next, None
        assert lease is not None
        connection = self._connection
        handler = self._handlers.get(type(command))
        if handler is None:  # administrative commands are not served here
            question = question_of(command)
            self._home.budget.end(lease)
            connection.send(encode(c.OperationUnsupported(question.request_id, question.operation, "")))
            return False
        self._home.totals.requests += 1
        self.running += 1
        try:
            self._home.supervisor.spawn("request", self._perform(handler, command, lease))
        except ClosedError:
            self._end(lease)
            connection.close_after_replies("the server stops")
        return True

    def stop(self) -> None:
        """No further request is started. Idempotent."""
        self._end_next()

    def close(self) -> None:
        """The connection is lost, and its outbox closed."""
        self._end_next()
        self._replies.close()

    async def _perform(self, handler: Handler, command: Request, lease: Lease) -> None:
        connection = self._connection
        try:
            check_request(self._home.authorise, command)
            if type(command) in self._questions:
                await self._replies.answer(handler, command, lease)
            else:
                self._outbox.send_reply(encode(await handler(command)))
        except HeadraceError as error:
            connection.on_error(command, error)
        except Exception:  # a bug of ours: only this connection ends
            _logger.exception("%s from %s failed", type(command).__name__, connection.peer)
            connection.close_after_replies("internal error")
        finally:
            self._end(lease)

    def _end(self, lease: Lease) -> None:
        self.running -= 1
        self._home.budget.end(lease)
        if self.running + 1 == self._home.config.requests_max:
            asyncio.get_running_loop().call_soon(self._connection.unblock, REQUESTS)
        self._connection.on_answered()
