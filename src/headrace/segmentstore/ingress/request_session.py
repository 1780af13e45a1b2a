"""Requests of one connection but for appends and reads. They run as tasks.

Updates of tables begin, and keys in memory are answered, without one: a task costs as much as the rest of
such a request, and updates that arrive together become one append. What has to wait first, or is about to be
refused, takes a task, and so do updates of its keys behind it: those of a connection keep their order.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial

from headrace.errors import ClosedError, HeadraceError
from headrace.segmentstore.ingress.authorisation import check_request
from headrace.segmentstore.ingress.blocked import ADMISSION, MEMORY, REQUESTS
from headrace.segmentstore.ingress.budget import SMALL_BYTES_MAX, Lane, Lease
from headrace.segmentstore.ingress.change_order import Change, ChangeOrder
from headrace.segmentstore.ingress.frame_lease import FrameLease
from headrace.segmentstore.ingress.home import ConnectionHome, ServedConnection
from headrace.segmentstore.ingress.outbox import Outbox
from headrace.segmentstore.ingress.reply_mapping import question_of
from headrace.segmentstore.ingress.segment_session import Handler, SegmentSession
from headrace.segmentstore.ingress.table_replies import AROUND_BYTES, TableReplies
from headrace.segmentstore.ingress.table_session import TableSession
from headrace.wire import commands as c
from headrace.wire.commands.kinds import Request
from headrace.wire.frames import encode
from headrace.wire.table_replies import encode_table_entries_updated

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
        self._tables = tables = TableSession(home.store)
        self._questions = tables.questions
        self._handlers: dict[type[Request], Handler] = {
            **SegmentSession(home.store, connection.transients).handlers,
            **tables.handlers,
            **tables.questions,
        }
        self._replies = TableReplies(home, connection, outbox)
        self._read_bytes_max = max(0, home.config.small_reply_bytes_max - AROUND_BYTES)
        self._change_order = ChangeOrder()
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

    def answer_nowait(self, command: Request) -> bool:
        """Answer ``command``, of a small frame that was just decoded, if that needs nothing but memory; else
        return False. It needs no lease: nothing of it is left.
        """
        if type(command) is not c.ReadTable or not self._replies.may_answer_nowait:
            return False
        try:
            check_request(self._home.authorise, command)
            frame = self._tables.read_nowait(command, self._read_bytes_max)
            if frame is None:
                return False
            self._outbox.send_reply(frame)
        except HeadraceError as error:
            self._connection.on_error(command, error)
        except Exception as error:  # noqa: BLE001 - a bug of ours: only this connection ends
            self._on_bug(command, error)
        self._home.totals.requests += 1
        self._end_next()  # it may have waited for a lease first
        return True

    def start(self, command: Request) -> bool:
        """Start ``command``, which was admitted. Return whether that takes an iteration of the loop."""
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
        if not self._begin(command, lease):
            self._spawn(handler, command, lease)
            return True
        return False

    def _begin(self, command: Request, lease: Lease) -> bool:
        """Begin an update of a table without a task; return False if it, or another request, takes one."""
        try:
            if type(command) is c.UpdateTableEntries:
                if not self._change_order.may_begin(command):
                    return False
                check_request(self._home.authorise, command)
                if not self._tables.begin_update(command, partial(self._on_updated, command, lease)):
                    return False
            else:
                return False
        except HeadraceError as error:
            self._connection.on_error(command, error)
            self._end(lease)
        except Exception as error:  # noqa: BLE001 - a bug of ours: only this connection ends
            self._on_bug(command, error)
            self._end(lease)
        return True

    def _on_updated(
        self,
        command: c.UpdateTableEntries,
        lease: Lease,
        versions: list[int] | None,
        error: HeadraceError | None,
    ) -> None:
        if versions is not None:
            self._outbox.send_reply(encode_table_entries_updated(command.request_id, versions))
        elif error is not None:
            self._connection.on_error(command, error)
        else:
            self._spawn(self._handlers[type(command)], command, lease)
            return
        self._end(lease)

    def _spawn(self, handler: Handler, command: Request, lease: Lease) -> None:
        try:
            self._home.supervisor.spawn("request", self._perform(handler, command, lease))
        except ClosedError:
            self._end(lease)
            self._connection.close_after_replies("the server stops")
        else:
            if isinstance(command, Change):
                self._change_order.begin(command)

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
        except Exception as error:  # noqa: BLE001 - a bug of ours: only this connection ends
            self._on_bug(command, error)
        finally:
            if isinstance(command, Change):
                self._change_order.end(command)
            self._end(lease)

    def _on_bug(self, command: Request, error: Exception) -> None:
        _logger.error("%s from %s failed", type(command).__name__, self._connection.peer, exc_info=error)
        self._connection.close_after_replies("internal error")

    def _end(self, lease: Lease) -> None:
        self.running -= 1
        self._home.budget.end(lease)
        if self.running + 1 == self._home.config.requests_max:
            asyncio.get_running_loop().call_soon(self._connection.unblock, REQUESTS)
        self._connection.on_answered()
