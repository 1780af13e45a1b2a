"""Parts of a storage checkpoint: records of a log one behind the other, each with its length in front.

::

    part   := magic record*          magic: HRSP, version 1 in one byte, three zero bytes
    record := length content         length: 4 bytes, big-endian

A record lies in one part. The manifest has length and checksum of the whole part.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import Final

from headrace.errors import DataCorruptionError

_HEAD: Final = b"HRSP\x01\0\0\0"
_LENGTH: Final = Struct(">I")


class PartBuilder:
    """Collects records until a part has ``bytes_max``, as one record at least."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._buffers: list[bytes] = [_HEAD]
        self._size = len(_HEAD)
        self.records = 0
        """In all parts."""

    def add(self, record: bytes) -> list[bytes] | None:
        """Add a record; return the buffers of the part before it, if that is full."""
        size = _LENGTH.size + len(record)
        full = self.take() if self._size + size > self._bytes_max else None
        self._buffers += (_LENGTH.pack(len(record)), record)
        self._size += size
        self.records += 1
        return full

    def take(self) -> list[bytes] | None:
        """Return the buffers of a part with the records added since the last one; None without any."""
        if len(self._buffers) == 1:
            return None
        buffers, self._buffers, self._size = self._buffers, [_HEAD], len(_HEAD)
        return buffers


def decode_part(data: memoryview, name: str = "?") -> Iterator[memoryview]:
    """Yield the records of a part, views of ``data``.

    Raises:
        DataCorruptionError: it is no part, or ends within a record.
    """
    if bytes(data[: len(_HEAD)]) != _HEAD:
        raise DataCorruptionError("no part of a storage checkpoint, or of an unknown version", path=name)
    at = len(_HEAD)
    while at < len(data):
        begin = at + _LENGTH.size
        at = begin + _LENGTH.unpack_from(data, at)[0] if begin <= len(data) else begin
        if at > len(data):
            raise DataCorruptionError("a part ends within a record", path=name, offset=begin)
        yield data[begin:at]
