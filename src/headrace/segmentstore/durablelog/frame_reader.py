"""Assembles operations from data frames, tolerating exactly what a crash may leave.

An incomplete operation at the end of the log was never acknowledged: it is dropped. Entries in front of the
first *first* entry belong to an operation whose head was truncated: they are skipped. Any other entry that
does not fit is corruption.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from headrace.errors import DataCorruptionError, PreconditionError
from headrace.segmentstore.durablelog import frame_format
from headrace.segmentstore.durablelog.frame_format import ENTRY_HEADER, FIRST, FRAME_HEADER, LAST, VERSION


class FrameReader:
    """Turns WAL records, in order, into whole operations: views that are valid until the next record."""

    __slots__ = ("_address", "_partial", "_seen_first", "frame_count", "frame_time_ms", "start_address")

    def __init__(self) -> None:
        self._partial: bytearray | None = None
        self._seen_first = False
        self._address = -1
        self.start_address = -1
        """Address of the frame in which the operation just yielded begins: the log may be truncated there."""
        self.frame_time_ms = 0
        self.frame_count = 0

    def feed(self, address: int, payload: memoryview) -> Iterator[memoryview]:
        """Yield the operations that end in this frame.

        Raises:
            DataCorruptionError: the frame is not well formed, or frames are out of order.
            PreconditionError: the log was moved to another place.
        """
        if address <= self._address:
            raise DataCorruptionError(f"frame at {address} follows the one at {self._address}")
        self._address = address
        self.frame_count += 1
        try:
            version, flags, _, length, self.frame_time_ms = FRAME_HEADER.unpack_from(payload, 0)
        except struct.error as error:
            raise DataCorruptionError(f"frame at {address} is too short") from error
        if version != VERSION or FRAME_HEADER.size + length != len(payload):
            raise DataCorruptionError(f"frame at {address}: version {version}, content {length}")
        if flags and (place := frame_format.find_moved(payload)):
            raise PreconditionError(f"`headrace log copy` has moved this log to {place}: it goes on there")
        at = FRAME_HEADER.size
        end = len(payload)
        unpack = ENTRY_HEADER.unpack_from
        while at < end:
            if at + 5 > end:
                raise DataCorruptionError(f"frame at {address}: entry header at {at} runs past the end")
            size, flags = unpack(payload, at)
            at += 5
            if size == 0 or at + size > end:
                raise DataCorruptionError(f"frame at {address}: entry of {size} bytes at {at - 5}")
            entry = payload[at : at + size]
            at += size
            if flags == FIRST | LAST:
                self._partial = None
                self._seen_first = True
                self.start_address = address
                yield entry
            elif flags == FIRST:
                # A new operation while another is incomplete: the writer died in the middle of the older one.
                self._partial = bytearray(entry)
                self._seen_first = True
                self.start_address = address
            elif self._partial is not None:
                self._partial += entry
                if flags & LAST:
                    whole, self._partial = self._partial, None
                    yield memoryview(whole)
            elif self._seen_first:
                raise DataCorruptionError(
                    f"frame at {address}: an entry at {at - size - 5} continues nothing"
                )
