"""Requests of one connection that run as tasks: everything but appends and reads."""

from __future__ import annotations

import logging
from enum import Enum, auto
from typing import Protocol

from headrace.errors import ClosedError, HeadraceError
from headrace.segmentstore.ingress.admission import Stay
from headrace.segmentstore.ingress.authorisation import Permission
from headrace.segmentstore.ingress.home import ConnectionHome
from headrace.segmentstore.ingress.outbox import Outbox
from headrace.segmentstore.ingress.reply_mapping import question_of
from headrace.segmentstore.ingress.segment_session import Handler, SegmentSession
from headrace.segmentstore.ingress.table_replies import TableReplies
from headrace.segmentstore.ingress.table_session import TableSession
from headrace.segmentstore.ingress.transient_segments import TransientSegments
from headrace.wire import commands as c
from headrace.wire.commands.kinds import Request
from headrace.wire.frames import encode

_logger = logging.getLogger(__name__)


class Admitted(Enum):
    """Whether a request may be started."""

    YES = auto()
    TOO_MANY = auto()
    """Ask again when a request of this connection has ended."""
    TOO_LARGE = auto()
    """Ask again when the connection is told that there is room."""


class RequestConnection(Protocol):
    """What a request needs of its connection."""

    peer: str

    def send(self, frame: bytes) -> None:
        """Send a frame behind everything sent before."""

    def on_error(self, command: Request, error: Exception) -> None:
        """A request failed."""

    def on_request_ended(self) -> None:
        """A request was answered."""

    def on_admission(self) -> None:
        """There is room for the request that found none."""

    def close_after_replies(self, reason: str) -> None:
        """Take nothing more, send what is owed, close."""

    def on_reply_overdue(self) -> None:
        """Others wait for the room of a reply that this client does not take."""


class RequestSession:
    """Starts requests within bounds, and sends what they answer."""

    __slots__ = (
        "_admitted_bytes",
        "_asked_bytes",
        "_connection",
        "_handlers",
        "_home",
        "_outbox",
        "_questions",
        "_replies",
        "running",
    )

    def __init__(
        self,
        home: ConnectionHome,
        connection: RequestConnection,
        transients: TransientSegments,
        outbox: Outbox,
    ) -> None:
        self._home = home
        self._connection = connection
        self._outbox = outbox
        tables = TableSession(home.store)
        self._questions = tables.questions
        self._handlers: dict[type[Request], Handler] = {
            **SegmentSession(home.store, transients).handlers,
            **tables.handlers,
            **tables.questions,
        }
        self._replies = TableReplies(home, connection, outbox)
        self.running = 0
        self._admitted_bytes = 0
        """Room that was taken for the request that is started next."""
        self._asked_bytes = 0

    def admit(self, size_bytes: int) -> Admitted:
        """Take room for the next request, which takes ``size_bytes`` once it is decoded.

        To be called before it is decoded: that may take a while, and would be in vain if it has to wait.
        """
        if self._admitted_bytes:  # it has waited for it
            return Admitted.YES
        if self.running >= self._home.config.requests_max:
            return Admitted.TOO_MANY
        self._asked_bytes = size_bytes
        if not self._home.admission.enter(size_bytes, self._on_entered):
            return Admitted.TOO_LARGE
        self._admitted_bytes = size_bytes
        return Admitted.YES

    def _on_entered(self) -> None:
        self._admitted_bytes = self._asked_bytes
        self._connection.on_admission()

    def start(self, command: Request) -> bool:
        """Start ``command``, which was admitted. Return False if it was answered at once."""
        size_bytes, self._admitted_bytes = self._admitted_bytes, 0
        handler = self._handlers.get(type(command))
        if handler is None:  # administration is not served on this port
            question = question_of(command)
            self._home.admission.leave(size_bytes)
            self._connection.send(encode(c.OperationUnsupported(question.request_id, question.operation, "")))
            return False
        self._home.totals.requests += 1
        self.running += 1
        stay = Stay(self._home.admission, size_bytes)
        try:
            self._home.supervisor.spawn("request", self._perform(handler, command, stay))
        except ClosedError:
            self._end(stay)
            self._connection.close_after_replies("the server stops")
        return True

    def close(self) -> None:
        """No further request is started. Idempotent."""
        self._home.admission.leave_line(self._on_entered)
        self.give_back()

    def on_lost(self) -> None:
        """Nobody takes replies any more; the outbox is closed."""
        self._replies.close()

    def give_back(self) -> None:
        """Let others have the room that was taken for the next request, if it was not started."""
        size_bytes, self._admitted_bytes = self._admitted_bytes, 0
        if size_bytes:
            self._home.admission.leave(size_bytes)

    async def _perform(self, handler: Handler, command: Request, stay: Stay) -> None:
        connection = self._connection
        try:
            self._check_token(command)
            await self._answer(handler, command, stay)
        except HeadraceError as error:
            connection.on_error(command, error)
        except Exception:  # a bug of ours: only this connection ends
            _logger.exception("%s from %s failed", type(command).__name__, connection.peer)
            connection.close_after_replies("internal error")
        finally:
            self._end(stay)

    async def _answer(self, handler: Handler, command: Request, stay: Stay) -> None:
        if type(command) in self._questions:
            await self._replies.answer(handler, command, stay)
        else:
            self._outbox.send_reply(encode(await handler(command)))

    def _end(self, stay: Stay) -> None:
        self.running -= 1
        stay.end()
        self._connection.on_request_ended()

    def _check_token(self, command: Request) -> None:
        if isinstance(command, c.CreateTransientSegment):
            return  # its name is worth nothing without a writer, whose token is checked
        permission = Permission.READ_UPDATE if isinstance(command, c.MergeSegmentsBatch) else Permission.READ
        segment = command.target if isinstance(command, c.MergeSegments) else question_of(command).segment
        token: str = command.delegation_token  # type: ignore[attr-defined]  # every request with a handler has one
        self._home.authorise(token, segment, permission)
