"""Where the log may be cut: in front of a metadata checkpoint whose past is in long-term storage."""

from __future__ import annotations

from collections import OrderedDict


class TruncationPoints:
    """Remembers, for each durable checkpoint, the address of the frame in which it begins. Pure."""

    def __init__(self) -> None:
        self._addresses: OrderedDict[int, int] = OrderedDict()
        self.truncated_address = -1

    def add(self, end_sequence: int, begin_address: int) -> None:
        """The checkpoint that ends at ``end_sequence`` is whole and durable."""
        assert not self._addresses or end_sequence > next(reversed(self._addresses))
        self._addresses[end_sequence] = begin_address

    def take(self, sequence: int) -> int | None:
        """Everything up to ``sequence`` is stored: return where to cut, or None if that gains nothing."""
        address = None
        while self._addresses:
            end_sequence, candidate = next(iter(self._addresses.items()))
            if end_sequence > sequence:
                break
            del self._addresses[end_sequence]
            address = candidate
        if address is None or address <= self.truncated_address:
            return None
        self.truncated_address = address
        return address

    def __len__(self) -> int:
        return len(self._addresses)
