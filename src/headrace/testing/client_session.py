"""What a server may send when, seen from the client: versions, replies to requests, acknowledgements. No I/O.

The session sees what was sent and what arrives. A server must not speak unasked, must answer with the id
of the request, and acknowledges appends of one writer in order; anything else raises :class:`ProtocolError`,
after which the connection cannot be trusted. Source: ``docs/formats/wire.md``, "Conversation".
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from enum import Enum, auto

from headrace.errors import InvalidArgumentError, ProtocolError
from headrace.wire.catalogue import ANY_REQUEST_FAILURES, BY_COMMAND, VERSION, VERSION_OLDEST
from headrace.wire.commands import (
    AppendBlock,
    AppendBlockEnd,
    AppendSetup,
    ConditionalAppend,
    ConditionalBlockEnd,
    ConditionalCheckFailed,
    DataAppended,
    Hello,
    InvalidEventNumber,
    KeepAlive,
    NoSuchSegment,
    OperationUnsupported,
    Padding,
    PartialEvent,
    SegmentIsSealed,
    SetupAppend,
    WrongHost,
)
from headrace.wire.commands.kinds import Command, Reply, Request

_UNANSWERED = (AppendBlock, Padding, PartialEvent)


class Phase(Enum):
    """Where a connection is."""

    NEW = auto()
    GREETING = auto()
    OPEN = auto()


@dataclass(slots=True, eq=False)
class _SentAppend:
    number: int
    request_id: int
    conditional: bool


@dataclass(slots=True, eq=False)
class _Writer:
    """Appends of one writer that were sent and not answered; numbers increase."""

    segment: str
    acked: int
    sent: deque[_SentAppend] = field(default_factory=deque)


class ClientSession:
    """One connection as its client sees it."""

    __slots__ = ("_keep_alives", "_phase", "_server", "_setups", "_unanswered", "_writers")

    def __init__(self) -> None:
        self._phase = Phase.NEW
        self._server: Hello | None = None
        self._unanswered: dict[int, deque[type[Request]]] = {}
        self._setups: dict[int, deque[SetupAppend]] = {}
        self._writers: dict[bytes, _Writer] = {}
        self._keep_alives = 0

    @property
    def phase(self) -> Phase:
        return self._phase

    @property
    def server(self) -> Hello | None:
        """The versions of the server, once it answered."""
        return self._server

    def start(self) -> Hello:
        """Return the first command to send."""
        assert self._phase is Phase.NEW
        self._phase = Phase.GREETING
        return Hello(VERSION, VERSION_OLDEST)

    # -------------------------------------------------------------------------------------- out

    def on_sent(self, request: Request) -> None:
        """``request`` is about to be sent.

        Raises:
            InvalidArgumentError: it may not be sent now; nothing changed.
        """
        if self._phase is Phase.NEW:
            raise InvalidArgumentError("the first command of a connection is Hello")
        match request:
            case Hello():
                raise InvalidArgumentError("Hello is sent once")
            case KeepAlive():
                self._keep_alives += 1
            case SetupAppend():
                self._setups.setdefault(request.request_id, deque()).append(request)
            case AppendBlockEnd():
                self._on_append(request.writer_id, request.last_event_number, request.request_id, False)
            case ConditionalAppend() | ConditionalBlockEnd():
                self._on_append(request.writer_id, request.event_number, request.request_id, True)
            case AppendBlock():
                if request.writer_id not in self._writers:
                    raise InvalidArgumentError("the writer is not set up")
            case Padding() | PartialEvent():
                pass
            case _:
                request_id: int = request.request_id  # type: ignore[attr-defined] # every other request has one
                self._unanswered.setdefault(request_id, deque()).append(type(request))

    def _on_append(self, writer_id: bytes, number: int, request_id: int, conditional: bool) -> None:
        writer = self._writers.get(writer_id)
        if writer is None:
            raise InvalidArgumentError("the writer is not set up")
        if number <= (writer.sent[-1].number if writer.sent else writer.acked):
            raise InvalidArgumentError(f"event number {number} was used before")
        writer.sent.append(_SentAppend(number, request_id, conditional))

    # -------------------------------------------------------------------------------------- in

    def on_reply(self, reply: Command) -> None:
        """``reply`` arrived.

        Raises:
            ProtocolError: the server may not say that now.
        """
        if not isinstance(reply, Reply):
            raise ProtocolError(f"{type(reply).__name__} is no reply")
        if isinstance(reply, Hello):
            self._on_hello(reply)
            return
        match reply:
            case KeepAlive():
                if self._keep_alives == 0:
                    raise ProtocolError("an unsolicited KeepAlive")
                self._keep_alives -= 1
            case AppendSetup():
                self._on_append_setup(reply)
            case DataAppended():
                self._on_data_appended(reply)
            case ConditionalCheckFailed():
                self._on_conditional_check_failed(reply)
            case InvalidEventNumber():
                self._get_writer(reply.writer_id).sent.clear()
            case _:
                self._on_answer(reply, reply.request_id)  # type: ignore[attr-defined] # every other reply has one

    def _on_hello(self, reply: Hello) -> None:
        if self._phase is not Phase.GREETING:
            raise ProtocolError("an unsolicited Hello")
        if reply.low_version > VERSION or reply.high_version < VERSION_OLDEST:
            raise ProtocolError(
                f"the server speaks versions {reply.low_version} to {reply.high_version}, "
                f"this client {VERSION_OLDEST} to {VERSION}"
            )
        self._server = reply
        self._phase = Phase.OPEN

    def _get_writer(self, writer_id: bytes) -> _Writer:
        writer = self._writers.get(writer_id)
        if writer is None:
            raise ProtocolError(f"a reply for the unknown writer {writer_id.hex()}")
        return writer

    def _on_append_setup(self, reply: AppendSetup) -> None:
        setup = self._take_setup(reply.request_id)
        if setup is None or setup.writer_id != reply.writer_id or setup.segment != reply.segment:
            raise ProtocolError("a writer was set up that was not asked for")
        self._writers[reply.writer_id] = _Writer(reply.segment, reply.last_event_number)

    def _take_setup(self, request_id: int) -> SetupAppend | None:
        waiting = self._setups.get(request_id)
        if waiting is None:
            return None
        setup = waiting.popleft()
        if not waiting:
            del self._setups[request_id]
        return setup

    def _on_data_appended(self, reply: DataAppended) -> None:
        writer = self._get_writer(reply.writer_id)
        previous = reply.previous_event_number
        if previous >= reply.event_number or (writer.sent and writer.sent[0].number <= previous):
            raise ProtocolError(f"an acknowledgement of {reply.event_number} continues {previous}")
        covered = 0
        for append in writer.sent:
            covered += 1
            if append.number >= reply.event_number:
                break
            if append.conditional:
                raise ProtocolError(f"the acknowledgement of {reply.event_number} skips a conditional append")
        if not covered or writer.sent[covered - 1].number != reply.event_number:
            raise ProtocolError(f"event number {reply.event_number} was acknowledged but is not in flight")
        if writer.sent[covered - 1].request_id != reply.request_id:
            raise ProtocolError("an acknowledgement has the id of another request")
        for _ in range(covered):
            writer.sent.popleft()
        writer.acked = reply.event_number

    def _on_conditional_check_failed(self, reply: ConditionalCheckFailed) -> None:
        sent = self._get_writer(reply.writer_id).sent
        if not sent or sent[0].number != reply.event_number or not sent[0].conditional:
            raise ProtocolError(f"event number {reply.event_number} failed but is not the next one in flight")
        sent.popleft()

    def _on_answer(self, reply: Reply, request_id: int) -> None:
        kind = type(reply)
        waiting = self._unanswered.get(request_id, ())
        for request in waiting:
            if kind in BY_COMMAND[request].replies or kind in ANY_REQUEST_FAILURES:
                assert isinstance(waiting, deque)
                waiting.remove(request)
                if not waiting:
                    del self._unanswered[request_id]
                return
        is_setup_failure = kind is NoSuchSegment or kind in ANY_REQUEST_FAILURES
        if is_setup_failure and self._take_setup(request_id) is not None:
            return
        if isinstance(reply, NoSuchSegment | SegmentIsSealed | WrongHost | OperationUnsupported):
            for writer in self._writers.values():
                if writer.sent and writer.sent[0].request_id == request_id:
                    writer.sent.popleft()
                    return
        raise ProtocolError(f"{kind.__name__} answers no request {request_id}")

    @property
    def idle(self) -> bool:
        """Nothing is waited for."""
        return (
            self._phase is Phase.OPEN
            and not self._unanswered
            and not self._setups
            and not self._keep_alives
            and not any(writer.sent for writer in self._writers.values())
        )
