"""The few kinds of fields rows are made of, written and read in order.

=========  ========================================================================================
uint       little-endian base 128: seven bits per byte, high bit set on all but the last, < 2**64
sint       zigzag (0, -1, 1, -2, ...) as uint, signed 64-bit
f64        8 bytes, IEEE 754, big endian
fixed      a known number of bytes
blob       uint length, then that many bytes
text       blob of UTF-8
flag       one byte, 0 or 1
=========  ========================================================================================

Every row begins with the letter of its kind and the number of its version, one byte each. Source:
``docs/formats/controller-rows.md``.
"""

from __future__ import annotations

import struct
from typing import Final

from headrace.errors import DataCorruptionError

_F64: Final = struct.Struct(">d")
_UINT_MAX: Final = (1 << 64) - 1


class FieldWriter:
    """Collects the bytes of one row."""

    __slots__ = ("_data",)

    def __init__(self, kind: bytes = b"", version: int = 0) -> None:
        self._data = bytearray()
        if kind:
            self._data += kind
            self._data.append(version)

    def uint(self, value: int) -> None:
        assert 0 <= value <= _UINT_MAX
        data = self._data
        while value > 0x7F:
            data.append(value & 0x7F | 0x80)
            value >>= 7
        data.append(value)

    def sint(self, value: int) -> None:
        self.uint(value << 1 if value >= 0 else (-value << 1) - 1)

    def f64(self, value: float) -> None:
        self._data += _F64.pack(value)

    def fixed(self, value: bytes) -> None:
        self._data += value

    def blob(self, value: bytes) -> None:
        self.uint(len(value))
        self._data += value

    def text(self, value: str) -> None:
        self.blob(value.encode("utf-8"))

    def flag(self, value: bool) -> None:
        self._data.append(1 if value else 0)

    def to_bytes(self) -> bytes:
        return bytes(self._data)


class FieldReader:
    """Takes the bytes of one row apart. Every malformed row raises DataCorruptionError."""

    __slots__ = ("_data", "_position", "version")

    def __init__(self, data: bytes, kind: bytes = b"", versions: tuple[int, ...] = ()) -> None:
        self._data = data
        self._position = 0
        self.version = 0
        if kind:
            found = self.fixed(1)
            self.version = self.fixed(1)[0]
            if found != kind or self.version not in versions:
                raise DataCorruptionError(
                    f"a row of kind {found!r} version {self.version} where {kind!r} {versions} belongs"
                )

    def uint(self) -> int:
        value = shift = 0
        data, position = self._data, self._position
        while True:
            if position >= len(data) or shift > 63:
                raise DataCorruptionError("a number of a row is cut short or too long")
            byte = data[position]
            position += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
            shift += 7
        if value > _UINT_MAX:
            raise DataCorruptionError("a number of a row is too large")
        self._position = position
        return value

    def sint(self) -> int:
        value = self.uint()
        return -((value + 1) >> 1) if value & 1 else value >> 1

    def f64(self) -> float:
        value: float = _F64.unpack(self.fixed(8))[0]
        return value

    def fixed(self, length: int) -> bytes:
        end = self._position + length
        if end > len(self._data):
            raise DataCorruptionError(f"a row of {len(self._data)} bytes ends before byte {end}")
        value = self._data[self._position : end]
        self._position = end
        return value

    def blob(self) -> bytes:
        return self.fixed(self.uint())

    def text(self) -> str:
        try:
            return self.blob().decode("utf-8")
        except UnicodeDecodeError as error:
            raise DataCorruptionError(f"a text of a row is not UTF-8: {error}") from None

    def flag(self) -> bool:
        value = self.fixed(1)[0]
        if value > 1:
            raise DataCorruptionError(f"a flag of a row is {value}")
        return value == 1

    def count(self, bytes_each_min: int = 1) -> int:
        """Read the length of a list; a hostile one is refused before anything is allocated."""
        value = self.uint()
        if value * bytes_each_min > len(self._data) - self._position:
            raise DataCorruptionError(f"a row lists {value} items, more than its bytes can hold")
        return value

    def end(self) -> None:
        """Nothing may follow."""
        if self._position != len(self._data):
            raise DataCorruptionError(f"{len(self._data) - self._position} bytes too many in a row")
