"""How one field of a command becomes bytes and back: the primitives every payload is made of.

All numbers are big-endian. A field is declared once, as an annotation of its command (``request_id: Int64``);
the codec travels in the annotation. Whatever a peer sends ends in a value or in :class:`ProtocolError`, never
in anything else. Format: ``docs/formats/wire.md``, "Primitives".
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Final, Protocol

from headrace.errors import InvalidArgumentError, ProtocolError
from headrace.limits import LIST_COUNT_MAX, WIRE_STRING_BYTES_MAX
from headrace.model.attributes import AttributeUpdate, UpdateKind
from headrace.model.tables import TableEntry, TableKey

Buffer = bytes | bytearray | memoryview
"""Payload bytes: decoded ones are views of the receive buffer, valid until the next bytes are received."""

Parts = list[Buffer]
"""Pieces of a frame in wire order; joining them (or writing them one by one) gives its bytes."""

_UINT16: Final = struct.Struct(">H")
_INT32: Final = struct.Struct(">i")
_TWO_INT32: Final = struct.Struct(">ii")
_INT64: Final = struct.Struct(">q")
_VERSION_AND_SIZES: Final = struct.Struct(">qii")
_ATTRIBUTE_UPDATE: Final = struct.Struct(">16sbqq")
_CHUNK_HEAD: Final = struct.Struct(">qqq")
_LISTED: Final = struct.Struct(">??qq")


@dataclass(frozen=True, slots=True)
class Number:
    """A field of fixed size, by its ``struct`` code. Neighbours are packed in one call."""

    code: str

    @property
    def size_bytes(self) -> int:
        return struct.calcsize(">" + self.code)


class Codec(Protocol):
    """A field of variable size."""

    @property
    def size_bytes_min(self) -> int:
        """Bytes any value takes at least. A shorter rest of the payload means that the field is absent."""

    def write(self, value: Any, parts: Parts) -> None:
        """Append the bytes of ``value`` to ``parts``."""

    def read(self, payload: memoryview, at: int) -> tuple[Any, int]:
        """Return the value at ``at`` and where the next field starts. Raises ProtocolError."""


def _end_of(payload: memoryview, begin: int, size: int) -> int:
    """Return ``begin + size`` after checking that the payload reaches so far."""
    end = begin + size
    if size < 0 or end > len(payload):
        raise ProtocolError(f"a field of {size} bytes at {begin} leaves the payload of {len(payload)} bytes")
    return end


def decode_text(data: Buffer) -> str:
    """Decode UTF-8 and, leniently, its modified form (``C0 80`` for NUL, surrogate pairs of three bytes
    each).

    Raises:
        ProtocolError: it is neither.
    """
    try:
        return str(data, "utf-8")
    except UnicodeDecodeError:
        pass
    try:
        text = bytes(data).replace(b"\xc0\x80", b"\0").decode("utf-8", "surrogatepass")
        return text.encode("utf-16-be", "surrogatepass").decode("utf-16-be")
    except UnicodeError:
        raise ProtocolError("a string is not UTF-8") from None


def encode_text(text: str) -> bytes:
    """Encode a string with its 16-bit length.

    Raises:
        InvalidArgumentError: the string is longer than the format allows or holds lone surrogates.
    """
    try:
        data = text.encode()
    except UnicodeEncodeError:
        raise InvalidArgumentError("a string holds half a surrogate pair") from None
    if len(data) > WIRE_STRING_BYTES_MAX:
        raise InvalidArgumentError(f"a string of {len(data)} bytes exceeds {WIRE_STRING_BYTES_MAX}")
    return _UINT16.pack(len(data)) + data


class _Text:
    size_bytes_min = 2

    def write(self, value: str, parts: Parts) -> None:
        parts.append(encode_text(value))

    def read(self, payload: memoryview, at: int) -> tuple[str, int]:
        begin = at + 2
        if begin <= len(payload):
            end = begin + _UINT16.unpack_from(payload, at)[0]
            if end <= len(payload):
                return decode_text(payload[begin:end]) if end > begin else "", end
        raise ProtocolError(f"a string at {at} leaves the payload of {len(payload)} bytes")


class _View:
    """Counted bytes that are not copied when read."""

    size_bytes_min = 4

    def write(self, value: Buffer, parts: Parts) -> None:
        parts.append(_INT32.pack(len(value)))
        parts.append(value)

    def read(self, payload: memoryview, at: int) -> tuple[memoryview, int]:
        begin = _end_of(payload, at, 4)
        end = _end_of(payload, begin, _INT32.unpack_from(payload, at)[0])
        return payload[begin:end], end


class _Bytes:
    """Counted bytes that outlive the receive buffer."""

    size_bytes_min = 4

    def write(self, value: bytes, parts: Parts) -> None:
        parts.append(_INT32.pack(len(value)))
        parts.append(value)

    def read(self, payload: memoryview, at: int) -> tuple[bytes, int]:
        begin = _end_of(payload, at, 4)
        end = _end_of(payload, begin, _INT32.unpack_from(payload, at)[0])
        return bytes(payload[begin:end]), end


class _Rest:
    """Uncounted bytes up to the end of the payload."""

    size_bytes_min = 0

    def write(self, value: Buffer, parts: Parts) -> None:
        parts.append(value)

    def read(self, payload: memoryview, at: int) -> tuple[memoryview, int]:
        return payload[at:], len(payload)


class _Event:
    """An event with its stored 8-byte header; the value is the event's payload."""

    size_bytes_min = 8

    def write(self, value: Buffer, parts: Parts) -> None:
        parts.append(_TWO_INT32.pack(0, len(value)))
        parts.append(value)

    def read(self, payload: memoryview, at: int) -> tuple[memoryview, int]:
        begin = _end_of(payload, at, 8)
        kind, size = _TWO_INT32.unpack_from(payload, at)
        if kind != 0:
            raise ProtocolError(f"an event has type 0, not {kind}")
        end = _end_of(payload, begin, size)
        return payload[begin:end], end


class _TableKey:
    size_bytes_min = 17

    def write(self, value: TableKey, parts: Parts) -> None:
        size = len(value.key)
        if size == 0:
            raise InvalidArgumentError("a table key has at least one byte")
        parts.append(_TWO_INT32.pack(12 + size, size) + value.key + _INT64.pack(value.version))

    def read(self, payload: memoryview, at: int) -> tuple[TableKey, int]:
        begin = at + 8
        if begin <= len(payload):  # as for entries
            outer, size = _TWO_INT32.unpack_from(payload, at)
            end = begin + size
            if outer == 12 + size and size > 0 and end + 8 <= len(payload):
                return TableKey(bytes(payload[begin:end]), _INT64.unpack_from(payload, end)[0]), end + 8
        begin = _end_of(payload, at, 8)
        outer, size = _TWO_INT32.unpack_from(payload, at)
        _end_of(payload, at + 4, outer)
        if size == 0:
            # Peers disagree on whether a version follows an empty key, so what follows cannot be decoded.
            raise ProtocolError("a table key has at least one byte")
        end = _end_of(payload, begin, size)
        after = _end_of(payload, end, 8)
        return TableKey(bytes(payload[begin:end]), _INT64.unpack_from(payload, end)[0]), after


class _TableEntry:
    size_bytes_min = 25

    def write(self, value: TableEntry, parts: Parts) -> None:
        key, data = value.key, value.value
        if not key:
            raise InvalidArgumentError("a table key has at least one byte")
        parts.append(_TWO_INT32.pack(12 + len(key), len(key)) + key + _INT64.pack(value.version))
        parts.append(_TWO_INT32.pack(4 + len(data), len(data)) + data)

    def read(self, payload: memoryview, at: int) -> tuple[TableEntry, int]:
        # Most entries are read by these lines; what they do not accept, the others refuse.
        size, begin = len(payload), at + 8
        if begin <= size:
            outer, key_bytes = _TWO_INT32.unpack_from(payload, at)
            key_end = begin + key_bytes
            if outer == 12 + key_bytes and key_bytes > 0 and key_end + 16 <= size:
                version, outer, value_bytes = _VERSION_AND_SIZES.unpack_from(payload, key_end)
                value_at = key_end + 16
                end = value_at + value_bytes
                if outer == 4 + value_bytes and value_bytes >= 0 and end <= size:
                    return TableEntry(
                        bytes(payload[begin:key_end]), bytes(payload[value_at:end]), version
                    ), end
        key, at = _TABLE_KEY.read(payload, at)
        begin = _end_of(payload, at, 8)
        outer, size = _TWO_INT32.unpack_from(payload, at)
        _end_of(payload, at + 4, outer)
        end = _end_of(payload, begin, size)
        return TableEntry(key.key, bytes(payload[begin:end]), key.version), end


class _AttributeUpdate:
    size_bytes_min = 33

    def write(self, value: AttributeUpdate, parts: Parts) -> None:
        parts.append(_ATTRIBUTE_UPDATE.pack(value.attribute_id, value.kind, value.value, value.expected))

    def read(self, payload: memoryview, at: int) -> tuple[AttributeUpdate, int]:
        end = _end_of(payload, at, 33)
        attribute_id, kind, value, expected = _ATTRIBUTE_UPDATE.unpack_from(payload, at)
        try:
            return AttributeUpdate(attribute_id, UpdateKind(kind), value, expected), end
        except ValueError:
            raise ProtocolError(f"{kind} is no kind of attribute update") from None


class _Long:
    size_bytes_min = 8

    def write(self, value: int, parts: Parts) -> None:
        parts.append(_INT64.pack(value))

    def read(self, payload: memoryview, at: int) -> tuple[int, int]:
        end = _end_of(payload, at, 8)
        return _INT64.unpack_from(payload, at)[0], end


@dataclass(slots=True)
class MergedSegment:
    """One source of a batch merge and the length of the target right after it."""

    source: str
    new_target_write_offset: int


class _MergedSegment:
    size_bytes_min = 10

    def write(self, value: MergedSegment, parts: Parts) -> None:
        parts.append(encode_text(value.source))
        parts.append(_INT64.pack(value.new_target_write_offset))

    def read(self, payload: memoryview, at: int) -> tuple[MergedSegment, int]:
        source, at = _TEXT.read(payload, at)
        end = _end_of(payload, at, 8)
        return MergedSegment(source, _INT64.unpack_from(payload, at)[0]), end


@dataclass(slots=True)
class ChunkInfo:
    """One chunk of a segment as an operator sees it; lengths and offset in bytes."""

    length_in_metadata: int
    length_in_storage: int
    start_offset: int
    chunk_name: str
    exists_in_storage: bool


class _ChunkInfo:
    size_bytes_min = 27

    def write(self, value: ChunkInfo, parts: Parts) -> None:
        parts.append(_CHUNK_HEAD.pack(value.length_in_metadata, value.length_in_storage, value.start_offset))
        parts.append(encode_text(value.chunk_name))
        parts.append(b"\1" if value.exists_in_storage else b"\0")

    def read(self, payload: memoryview, at: int) -> tuple[ChunkInfo, int]:
        begin = _end_of(payload, at, 24)
        in_metadata, in_storage, start_offset = _CHUNK_HEAD.unpack_from(payload, at)
        name, at = _TEXT.read(payload, begin)
        end = _end_of(payload, at, 1)
        return ChunkInfo(in_metadata, in_storage, start_offset, name, payload[at] != 0), end


@dataclass(slots=True)
class ListedSegment:
    """What is known of one of many segments; offsets in bytes, 0 of one that does not exist."""

    exists: bool = False
    sealed: bool = False
    start_offset: int = 0
    length: int = 0


class _ListedSegment:
    size_bytes_min = 18

    def write(self, value: ListedSegment, parts: Parts) -> None:
        parts.append(_LISTED.pack(value.exists, value.sealed, value.start_offset, value.length))

    def read(self, payload: memoryview, at: int) -> tuple[ListedSegment, int]:
        end = _end_of(payload, at, _LISTED.size)
        return ListedSegment(*_LISTED.unpack_from(payload, at)), end


class _SizedName:
    """A name and a number."""

    size_bytes_min = 10

    def write(self, value: tuple[str, int], parts: Parts) -> None:
        parts.append(encode_text(value[0]))
        parts.append(_INT64.pack(value[1]))

    def read(self, payload: memoryview, at: int) -> tuple[tuple[str, int], int]:
        name, at = _TEXT.read(payload, at)
        end = _end_of(payload, at, 8)
        return (name, _INT64.unpack_from(payload, at)[0]), end


class ListOf:
    """A counted list. A count the rest of the payload cannot hold is refused before anything is built, and
    so is one above a bound: building a million elements takes the loop a second.
    """

    size_bytes_min = 4

    def __init__(self, element: Codec, count_max: int = LIST_COUNT_MAX) -> None:
        self.element = element
        self.count_max = count_max

    def write(self, value: list[Any], parts: Parts) -> None:
        parts.append(_INT32.pack(len(value)))
        write: Callable[[Any, Parts], None] = self.element.write
        for item in value:
            write(item, parts)

    def read_count(self, payload: memoryview, at: int) -> int:
        """Return how many elements the list at ``at`` has. Raises ProtocolError."""
        begin = _end_of(payload, at, 4)
        count: int = _INT32.unpack_from(payload, at)[0]
        if count < 0 or count * self.element.size_bytes_min > len(payload) - begin:
            raise ProtocolError(f"a list of {count} elements leaves the payload of {len(payload)} bytes")
        if count > self.count_max:
            raise ProtocolError(f"a list of {count} elements exceeds the limit of {self.count_max}")
        return count

    def read(self, payload: memoryview, at: int) -> tuple[list[Any], int]:
        count = self.read_count(payload, at)
        at += 4
        values = []
        read = self.element.read
        for _ in range(count):
            value, at = read(payload, at)
            values.append(value)
        return values, at


_TEXT: Final = _Text()
_TABLE_KEY: Final = _TableKey()

Int8 = Annotated[int, Number("b")]
Int32 = Annotated[int, Number("i")]
Int64 = Annotated[int, Number("q")]
Bool = Annotated[bool, Number("?")]
Uuid = Annotated[bytes, Number("16s")]
"""128 bits, as 16 bytes in wire order."""

Text = Annotated[str, _TEXT]
View = Annotated[Buffer, _View()]
Rest = Annotated[Buffer, _Rest()]
Event = Annotated[Buffer, _Event()]
Bytes = Annotated[bytes, _Bytes()]
TableKeys = Annotated[list[TableKey], ListOf(_TABLE_KEY)]
TableEntries = Annotated[list[TableEntry], ListOf(_TableEntry())]
AttributeUpdates = Annotated[list[AttributeUpdate], ListOf(_AttributeUpdate())]
Versions = Annotated[list[int], ListOf(_Long())]
Texts = Annotated[list[str], ListOf(_TEXT)]
MergedSegments = Annotated[list[MergedSegment], ListOf(_MergedSegment())]
FactsOfSegments = Annotated[list[ListedSegment], ListOf(_ListedSegment())]
SizedNames = Annotated[list[tuple[str, int]], ListOf(_SizedName())]
ChunkInfos = Annotated[list[ChunkInfo], ListOf(_ChunkInfo(), 1 << 20)]
