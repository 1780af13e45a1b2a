"""What a client may send when, seen from the server: versions, writers, event numbers. No I/O.

The session is told what arrives and answers with what to send, or raises :class:`ProtocolError`: then the
connection is closed without a reply to it. Source: ``docs/formats/wire.md``, "Conversation".
"""

from __future__ import annotations

from dataclasses import dataclass

from headrace.errors import ProtocolError
from headrace.wire.catalogue import VERSION, VERSION_OLDEST
from headrace.wire.commands import (
    AppendBlock,
    AppendBlockEnd,
    ConditionalAppend,
    ConditionalBlockEnd,
    Hello,
    Padding,
    PartialEvent,
    SetupAppend,
)
from headrace.wire.commands.kinds import Command, Request

WRITERS_MAX = 65_536
"""Writers of one connection. Known clients give a connection up after 2,000 of them."""


@dataclass(slots=True, eq=False)
class WriterRegistration:
    """A writer that was set up on this connection, and the highest event number it sent since."""

    writer_id: bytes
    segment: str
    event_number_seen: int = 0

    def on_numbers(self, first: int, last: int) -> None:
        """Appends arrived whose event numbers increase from ``first`` to ``last``.

        Raises:
            ProtocolError: the first one goes back behind what was seen before. Equal is legal here.
        """
        if first < self.event_number_seen:
            raise ProtocolError(f"event number {first} follows {self.event_number_seen}")
        self.event_number_seen = last


class ServerSession:
    """One connection as its server sees it."""

    __slots__ = ("_block_of", "_hello", "_writers")

    def __init__(self) -> None:
        self._writers: dict[bytes, WriterRegistration] = {}
        self._hello: Hello | None = None
        self._block_of: bytes | None = None

    @property
    def peer(self) -> Hello | None:
        """The versions of the client, if it said hello. It need not."""
        return self._hello

    def on_hello(self, hello: Hello) -> tuple[Hello, bool]:
        """Return the answer, and whether the connection has to be closed after it."""
        self._hello = hello
        compatible = hello.low_version <= VERSION and hello.high_version >= VERSION_OLDEST
        return Hello(VERSION, VERSION_OLDEST), not compatible

    def register(self, writer_id: bytes, segment: str) -> WriterRegistration:
        """A writer was set up; the latest set-up of a writer id decides which segment its appends go to.

        Raises:
            ProtocolError: there are too many writers.
        """
        if len(self._writers) >= WRITERS_MAX and writer_id not in self._writers:
            raise ProtocolError(f"more than {WRITERS_MAX} writers on one connection")
        registration = self._writers[writer_id] = WriterRegistration(writer_id, segment)
        return registration

    def forget(self, writer_id: bytes) -> None:
        """The writer is not set up any more."""
        self._writers.pop(writer_id, None)

    def find_writer(self, writer_id: bytes) -> WriterRegistration | None:
        return self._writers.get(writer_id)

    def get_writer(self, writer_id: bytes) -> WriterRegistration:
        """Return the registration of a writer that wants to append. Raises ProtocolError."""
        registration = self._writers.get(writer_id)
        if registration is None:
            raise ProtocolError(f"writer {writer_id.hex()} appends without having been set up")
        return registration

    def on_command(self, command: Command) -> None:
        """Check that ``command`` may arrive now, for drivers that take command by command.

        Raises:
            ProtocolError: it may not.
        """
        if not isinstance(command, Request):
            raise ProtocolError(f"{type(command).__name__} is no request")
        if self._block_of is not None:
            if not isinstance(command, AppendBlockEnd) or command.writer_id != self._block_of:
                raise ProtocolError("an append block is not followed by its end")
            self._block_of = None
        match command:
            case AppendBlock():
                self._block_of = self.get_writer(command.writer_id).writer_id
            case AppendBlockEnd():
                if command.num_events <= 0:
                    raise ProtocolError(f"an append cannot have {command.num_events} events")
                number = command.last_event_number
                self.get_writer(command.writer_id).on_numbers(number, number)
            case ConditionalAppend() | ConditionalBlockEnd():
                number = command.event_number
                self.get_writer(command.writer_id).on_numbers(number, number)
            case PartialEvent():
                raise ProtocolError("a partial event outside of an append block")
            case Hello() | Padding() | SetupAppend() | _:
                pass

    @property
    def writer_count(self) -> int:
        return len(self._writers)
