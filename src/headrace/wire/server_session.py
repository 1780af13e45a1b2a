"""What a client may send when, seen from the server: versions, writers, event numbers. No I/O.

The session receives commands and returns answers, or raises :class:`ProtocolError`: then the connection is
closed without a reply to it. Source: ``docs/formats/wire.md``, "Conversation".
"""

from __future__ import annotations

from dataclasses import dataclass

from headrace.errors import ProtocolError
from headrace.wire.catalogue import INTERNAL_VERSION, INTERNAL_VERSIONS, VERSION, VERSION_OLDEST
from headrace.wire.commands import (
    Hello,
)

WRITERS_MAX = 65_536
"""Writers of one connection. Known clients use a new connection after 2,000 of them."""


@dataclass(slots=True, eq=False)
class WriterRegistration:
    """A writer that was set up on this connection, and the highest event number it sent since."""

    writer_id: bytes
    segment: str
    event_number_seen: int = 0

    def on_numbers(self, first: int, last: int) -> None:
        """Appends arrived whose event numbers increase from ``first`` to ``last``.

        Raises:
            ProtocolError: the first one is lower than the last one seen. Equal is legal here.
        """
        if first < self.event_number_seen:
            raise ProtocolError(f"event number {first} follows {self.event_number_seen}")
        self.event_number_seen = last


class ServerSession:
    """One connection as its server sees it."""

    __slots__ = ("_writers",)

    def __init__(self) -> None:
        self._writers: dict[bytes, WriterRegistration] = {}

    def on_hello(self, hello: Hello) -> tuple[Hello, bool]:
        """Return the answer, and whether the connection has to be closed after it."""
        compatible = hello.low_version <= VERSION and hello.high_version >= VERSION_OLDEST
        ours = hello.high_version in INTERNAL_VERSIONS  # clients are told what the protocol knows
        return Hello(INTERNAL_VERSION if ours else VERSION, VERSION_OLDEST), not compatible

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

    def get_writer(self, writer_id: bytes) -> WriterRegistration:
        """Return the registration of a writer that wants to append. Raises ProtocolError."""
        registration = self._writers.get(writer_id)
        if registration is None:
            raise ProtocolError(f"writer {writer_id.hex()} appends without having been set up")
        return registration
