"""How an event is printed by ``headrace event read --format``. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Final, Protocol

from headrace.errors import InvalidArgumentError
from headrace.model.segment_id import segment_id_text


class ReadEvent(Protocol):
    """An event and where it is stored."""

    @property
    def data(self) -> bytes: ...

    @property
    def segment_id(self) -> int: ...

    @property
    def offset(self) -> int: ...

    @property
    def time(self) -> datetime | None: ...

    @property
    def key(self) -> bytes | None: ...

    @property
    def headers(self) -> Mapping[str, bytes]: ...


Print = Callable[[ReadEvent], bytes]


def time_text(time: datetime | None) -> str:
    """Return the time of a record as ISO 8601 writes it, in UTC; nothing if there is none."""
    return "" if time is None else time.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _headers(event: ReadEvent) -> bytes:
    return b",".join(name.encode() + b"=" + value for name, value in event.headers.items())


LETTERS: Final[dict[str, tuple[str, Print]]] = {
    "e": ("the event", lambda event: event.data),
    "l": ("its bytes, counted", lambda event: b"%d" % len(event.data)),
    "s": ("its segment as NUMBER#EPOCH", lambda event: segment_id_text(event.segment_id).encode()),
    "S": ("the id of its segment", lambda event: b"%d" % event.segment_id),
    "o": ("its offset", lambda event: b"%d" % event.offset),
    "t": ("the time of a record in ISO 8601", lambda event: time_text(event.time).encode()),
    "k": ("the key of a record", lambda event: event.key or b""),
    "h": ("the headers of a record as name=value,...", _headers),
    "%": ("a percent sign", lambda _: b"%"),
}
_ESCAPES: Final = {"n": b"\n", "t": b"\t", "r": b"\r", "0": b"\0", "\\": b"\\"}


def format_of(text: str) -> Print:
    r"""Return what prints an event as a format says; nothing is added, not even the end of a line.

    Args:
        text: with ``%`` before one of :data:`LETTERS`, and the escapes ``\n \t \r \0 \\``.

    Raises:
        InvalidArgumentError: a letter or an escape is unknown.
    """
    parts: list[bytes | Print] = []
    rest = iter(text)
    for char in rest:
        if char == "%":
            parts.append(_letter(next(rest, "")))
        elif char == "\\":
            parts.append(_escape(next(rest, "")))
        else:
            parts.append(char.encode(errors="surrogateescape"))  # as the shell passed it
    return lambda event: b"".join(part if isinstance(part, bytes) else part(event) for part in parts)


def _letter(letter: str) -> Print:
    found = LETTERS.get(letter)
    if found is None:
        known = ", ".join(f"%{each}" for each in LETTERS)
        raise InvalidArgumentError(f"the format has the unknown letter %{letter}; known are {known}")
    return found[1]


def _escape(char: str) -> bytes:
    if char not in _ESCAPES:
        known = " ".join(f"\\{each}" for each in _ESCAPES)
        raise InvalidArgumentError(f"the format has the unknown escape \\{char}; known are {known}")
    return _ESCAPES[char]
