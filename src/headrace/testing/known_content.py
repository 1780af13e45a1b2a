"""What all reads of a segment together say about its bytes.

A segment is append-only, so whatever two reads say about one offset must agree, whenever they were made.
"""

from __future__ import annotations

from collections.abc import Iterable

from headrace.testing.history import Operation
from headrace.testing.segment_calls import ReadCall, ReadResult


class ContradictionError(ValueError):
    """Two reads saw different bytes at one offset."""


class KnownContent:
    """Bytes by offset, as far as reads have seen them."""

    def __init__(self) -> None:
        self._bytes = bytearray()
        self._known = bytearray()  # 1 where the byte was seen

    @classmethod
    def of(cls, operations: Iterable[Operation]) -> KnownContent:
        """Return what the reads among ``operations`` have seen.

        Raises:
            ContradictionError: naming the read that disagrees with earlier ones.
        """
        content = cls()
        for operation in operations:
            if isinstance(operation.call, ReadCall) and isinstance(operation.result, ReadResult):
                if not content.agrees(operation.call.offset, operation.result.data):
                    raise ContradictionError(f"an earlier read saw other bytes: {operation}")
                content.add(operation.call.offset, operation.result.data)
        return content

    def add(self, offset: int, data: bytes) -> None:
        """Remember that ``data`` was seen at ``offset``."""
        end = offset + len(data)
        missing = end - len(self._bytes)
        if missing > 0:
            self._bytes.extend(bytes(missing))
            self._known.extend(bytes(missing))
        self._bytes[offset:end] = data
        self._known[offset:end] = b"\x01" * len(data)

    def agrees(self, offset: int, data: bytes) -> bool:
        """Say whether nothing that was seen contradicts ``data`` at ``offset``."""
        end = min(offset + len(data), len(self._bytes))
        start = self._known.find(1, offset, end)
        while start >= 0:
            stop = self._known.find(0, start, end)
            stop = end if stop < 0 else stop
            if self._bytes[start:stop] != data[start - offset : stop - offset]:
                return False
            start = self._known.find(1, stop, end)
        return True
