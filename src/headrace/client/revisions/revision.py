"""A place in a stream of revisions: behind an entry, and behind an update within it. Pure.

Source: protocol, "Revisioned stream protocol".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from headrace.errors import InvalidArgumentError
from headrace.limits import EVENT_HEADER_BYTES

_PARTS: Final = 3


@dataclass(frozen=True, slots=True, order=True)
class Revision:
    """Ordered as the entries of the stream are."""

    offset: int
    """Where the next entry begins, in bytes of the segment."""
    index: int = 0
    """Of the update within its entry, from 0 on."""

    def as_text(self, segment: str) -> str:
        """Return the text that other clients of the protocol parse; ``segment``: the qualified name."""
        return f"{segment}:{self.offset}:{self.index}"

    @classmethod
    def from_text(cls, text: str) -> Revision:
        """Parse the text form, of whichever segment.

        Raises:
            InvalidArgumentError: it is no revision.
        """
        parts = text.split(":")
        if len(parts) != _PARTS or not all(part.isdecimal() and part.isascii() for part in parts[1:]):
            raise InvalidArgumentError(f"{text!r} is no revision: SEGMENT:OFFSET:INDEX")
        return cls(int(parts[1]), int(parts[2]))

    def behind(self, payload_bytes: int) -> Revision:
        """Return the revision of an entry of so many bytes that follows this one."""
        return Revision(self.offset + EVENT_HEADER_BYTES + payload_bytes)
