"""Where the log may be cut: in front of a metadata checkpoint whose past is in long-term storage."""

from __future__ import annotations

from collections import OrderedDict


class TruncationPoints:
    """Remembers where each durable checkpoint begins: the address of its frame, its sequence number. Pure."""

    def __init__(self) -> None:
        self._begins: OrderedDict[int, tuple[int, int]] = OrderedDict()
        self.truncated_address = -1
        self.taken_sequence = 0
        """Where the checkpoint begins that was taken last: no operation before it is needed any more."""

    def add(self, end_sequence: int, begin_address: int, begin_sequence: int) -> None:
        """The checkpoint that ends at ``end_sequence`` is whole and durable."""
        assert not self._begins or end_sequence > next(reversed(self._begins))
        self._begins[end_sequence] = (begin_address, begin_sequence)

    def take(self, sequence: int) -> int | None:
        """Everything up to ``sequence`` is stored: return where to cut, or None if that gains nothing."""
        address = None
        while self._begins:
            end_sequence, (candidate, begin_sequence) = next(iter(self._begins.items()))
            if end_sequence > sequence:
                break
            del self._begins[end_sequence]
            address = candidate
            self.taken_sequence = begin_sequence
        if address is None or address <= self.truncated_address:
            return None
        self.truncated_address = address
        return address

    def __len__(self) -> int:
        return len(self._begins)
