"""Numbers of variable length and self-describing revisions: the serialised form that clients exchange.

Stream cuts, positions and the states of reader groups travel in this form. The leading bits of a number
give its length; a writer always uses the shortest. An object is an envelope::

    offset  size  field
    0       1     envelope format, always 0
    1       1     object version
    2       1     number of revisions that follow
    then per revision: revision number (1), length of its data (4, big-endian), data

A reader takes the revisions it knows, skips the rest, and keeps defaults for those that are missing. Where
objects of several types may stand, the type (1) follows the envelope format.

Source: protocol, "VersionedSerializer formats"; ``docs/formats/stream-cut.md``.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping
from typing import Final, TypeVar

from headrace.errors import InvalidArgumentError

COMPACT_INT_MAX: Final = 0x3FFF_FFFE
COMPACT_LONG_MAX: Final = 0x3FFF_FFFF_FFFF_FFFE
COMPACT_SIGNED_MAX: Final = 0x1FFF_FFFF_FFFF_FFFE
COMPACT_SIGNED_MIN: Final = -0x1FFF_FFFF_FFFF_FFFF

_REVISION: Final = struct.Struct(">bi")
_INT: Final = struct.Struct(">i")
_LONG: Final = struct.Struct(">q")
_DOUBLE: Final = struct.Struct(">d")
_TEXT_BYTES_MAX: Final = 0xFFFF

K = TypeVar("K")
V = TypeVar("V")


def encode_compact_int(value: int) -> bytes:
    """Encode 0 to ``COMPACT_INT_MAX`` in 1, 2 or 4 bytes."""
    if not 0 <= value <= COMPACT_INT_MAX:
        raise InvalidArgumentError(f"{value} is outside the range of a compact int")
    if value <= 0x7F:
        return value.to_bytes(1, "big")
    if value <= 0x3FFF:
        return (value | 0x8000).to_bytes(2, "big")
    return (value | 0xC000_0000).to_bytes(4, "big")


def _encode_with_length_code(value: int, value_bits: int, lead: int) -> bytes:
    """Write ``lead`` (bits above the length code), a two-bit code for 1, 2, 4 or 8 bytes, then ``value``."""
    for code, size in enumerate((1, 2, 4, 8)):
        bits = 8 * size - (8 - value_bits)
        if value < 1 << bits:
            return ((lead << 2 | code) << bits | value).to_bytes(size, "big")
    raise AssertionError("the caller has checked the range")


def encode_compact_long(value: int) -> bytes:
    """Encode 0 to ``COMPACT_LONG_MAX`` in 1, 2, 4 or 8 bytes."""
    if not 0 <= value <= COMPACT_LONG_MAX:
        raise InvalidArgumentError(f"{value} is outside the range of a compact long")
    return _encode_with_length_code(value, 6, 0)


def encode_compact_signed(value: int) -> bytes:
    """Encode a signed number of up to 61 bits in 1, 2, 4 or 8 bytes; -1 takes one byte."""
    if not COMPACT_SIGNED_MIN <= value <= COMPACT_SIGNED_MAX:
        raise InvalidArgumentError(f"{value} is outside the range of a compact signed long")
    return _encode_with_length_code(-value - 1, 5, 1) if value < 0 else _encode_with_length_code(value, 5, 0)


def encode_text(text: str) -> bytes:
    """Encode a text: two bytes of length, then UTF-8 in which NUL has two bytes and what is beyond the basic
    plane is a pair of surrogates.
    """
    raw = text.encode() if text.isascii() and "\0" not in text else _modified_utf8(text)
    if len(raw) > _TEXT_BYTES_MAX:
        raise InvalidArgumentError(f"a text of {len(raw)} bytes is longer than {_TEXT_BYTES_MAX}")
    return len(raw).to_bytes(2, "big") + raw


def _modified_utf8(text: str) -> bytes:
    units = text.encode("utf-16-be", "surrogatepass")
    pieces = (chr(units[at] << 8 | units[at + 1]) for at in range(0, len(units), 2))
    return "".join(pieces).encode("utf-8", "surrogatepass").replace(b"\0", b"\xc0\x80")


def _from_modified_utf8(raw: bytes) -> str:
    units = raw.replace(b"\xc0\x80", b"\0").decode("utf-8", "surrogatepass")
    return units.encode("utf-16-be", "surrogatepass").decode("utf-16-be")


def encode_int(value: int) -> bytes:
    """Encode 32 bits."""
    return _INT.pack(value)


def encode_long(value: int) -> bytes:
    """Encode 64 bits."""
    return _LONG.pack(value)


def encode_double(value: float) -> bytes:
    return _DOUBLE.pack(value)


def encode_bool(value: bool) -> bytes:
    return bytes((value,))


def encode_bytes(data: bytes) -> bytes:
    """Encode bytes behind their length."""
    return encode_compact_int(len(data)) + data


def encode_collection(items: Iterable[V], encode: Callable[[V], bytes]) -> bytes:
    encoded = [encode(each) for each in items]
    return encode_compact_int(len(encoded)) + b"".join(encoded)


def encode_map(items: Mapping[K, V], key: Callable[[K], bytes], value: Callable[[V], bytes]) -> bytes:
    """Encode a map in its own order; its reader must not rely on one."""
    parts = [encode_compact_int(len(items))]
    for each, item in items.items():
        parts += key(each), value(item)
    return b"".join(parts)


def encode_object(version: int, *revisions: bytes, kind: int | None = None) -> bytes:
    """Wrap the data of revisions 0, 1, ... of one object into an envelope; ``kind``: which of several types
    it has.
    """
    parts = [bytes((0, version, len(revisions)) if kind is None else (0, kind, version, len(revisions)))]
    for number, data in enumerate(revisions):
        parts.append(_REVISION.pack(number, len(data)))
        parts.append(data)
    return b"".join(parts)


class VersionedReader:
    """Reads numbers, names and envelopes from bytes of unknown origin.

    Every method raises ``InvalidArgumentError`` when the bytes end early or make no sense.
    """

    __slots__ = ("_data", "_end", "_offset")

    def __init__(self, data: bytes | memoryview) -> None:
        self._data = memoryview(data)
        self._offset = 0
        self._end = len(data)

    @property
    def remaining(self) -> int:
        return self._end - self._offset

    def take(self, size: int) -> memoryview:
        if not 0 <= size <= self.remaining:
            raise InvalidArgumentError(f"{size} bytes are announced, {self.remaining} are left")
        start = self._offset
        self._offset += size
        return self._data[start : self._offset]

    def byte(self) -> int:
        return self.take(1)[0]

    def _number(self, first: int, size: int, bits: int) -> int:
        value = first
        for byte in self.take(size - 1):
            value = value << 8 | byte
        return value & (1 << bits) - 1

    def compact_int(self) -> int:
        first = self.byte()
        if first < 0x80:
            return first
        return self._number(first, 2, 14) if first < 0xC0 else self._number(first, 4, 30)

    def compact_long(self) -> int:
        first = self.byte()
        size = 1 << (first >> 6)
        return self._number(first, size, 8 * size - 2)

    def compact_signed(self) -> int:
        first = self.byte()
        size = 1 << (first >> 5 & 3)
        value = self._number(first, size, 8 * size - 3)
        return -value - 1 if first & 0x80 else value

    def int32(self) -> int:
        value: int = _INT.unpack(self.take(_INT.size))[0]
        return value

    def int64(self) -> int:
        value: int = _LONG.unpack(self.take(_LONG.size))[0]
        return value

    def double(self) -> float:
        value: float = _DOUBLE.unpack(self.take(_DOUBLE.size))[0]
        return value

    def flag(self) -> bool:
        return self.byte() != 0

    def block(self) -> memoryview:
        return self.take(self.compact_int())

    def text(self) -> str:
        raw = self.take(int.from_bytes(self.take(2), "big")).tobytes()
        try:
            return raw.decode("ascii") if raw.isascii() else _from_modified_utf8(raw)
        except UnicodeError:
            raise InvalidArgumentError("a text is not UTF-8") from None

    def collection(self, read: Callable[[], V]) -> list[V]:
        return [read() for _ in range(self._count())]

    def map(self, key: Callable[[], K], value: Callable[[], V]) -> dict[K, V]:
        """Read a map, in the order of its bytes."""
        return {key(): value() for _ in range(self._count())}

    def _count(self) -> int:
        count = self.compact_int()
        if count > self.remaining:  # each item has a byte at least
            raise InvalidArgumentError(f"{count} items are announced, {self.remaining} bytes are left")
        return count

    def kind_and_envelope(self) -> tuple[int, int, dict[int, VersionedReader]]:
        """Read one object of several types; return its type, version and a reader per revision."""
        self._format()
        kind = self.byte()
        return kind, *self._revisions()

    def envelope(self) -> tuple[int, dict[int, VersionedReader]]:
        """Read one object; return its version and a reader per revision."""
        self._format()
        return self._revisions()

    def _format(self) -> None:
        if self.byte() != 0:
            raise InvalidArgumentError("unknown envelope format")

    def _revisions(self) -> tuple[int, dict[int, VersionedReader]]:
        version = self.byte()
        revisions: dict[int, VersionedReader] = {}
        previous = -1
        for _ in range(self.byte()):
            number, size = _REVISION.unpack(self.take(_REVISION.size))
            if number <= previous:
                raise InvalidArgumentError("revisions are not in ascending order")
            previous = number
            revisions[number] = VersionedReader(self.take(size))
        return version, revisions
