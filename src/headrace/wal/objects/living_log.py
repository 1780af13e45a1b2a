"""Which records a log consists of, from its head to the last one that was acknowledged. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

from headrace.errors import DataCorruptionError
from headrace.wal.objects.object_format import Kind, LogObject
from headrace.wal.objects.object_names import Head, Position, record_name


@dataclass(slots=True)
class LivingRecord:
    """One record of the log."""

    position: Position
    length: int
    """Of its object."""

    address: int | None = None
    """Of its first frame; None until it is read."""


class LivingLog:
    """Records in order. Owners add at the end and cut at the beginning."""

    def __init__(
        self, container: int, head: Head, records: Iterable[LivingRecord], end: Position, next_address: int
    ) -> None:
        self.container = container
        self.head = head
        self.records = deque(records)
        self.end = end
        """Position of the next record that is acknowledged."""
        self.next_address = next_address
        """Of its first frame."""
        self.record_bytes = sum(record.length for record in self.records)

    def add(self, length: int, frames: int) -> None:
        """Add a record that was acknowledged."""
        self.records.append(LivingRecord(self.end, length, self.next_address))
        self.record_bytes += length
        self.end = Position(self.end.epoch, self.end.sequence + 1)
        self.next_address += frames

    def plan_head(self, address: int) -> Head | None:
        """Return the head that drops all frames before ``address``, None if it drops none.

        Records that were not read yet may stay in front of the frame: their addresses are not known.
        """
        address = min(address, self.next_address)
        if address <= self.head.address:
            return None
        if address == self.next_address:
            return Head(self.end, address)
        position = self.head.position
        for record in self.records:
            if record.address is not None:
                if record.address > address:
                    break
                position = record.position
        return Head(position, address)

    def cut(self, head: Head) -> list[str]:
        """Begin the log at ``head`` from now on; return the names of the records that it has no more."""
        dropped = []
        self.head = head
        while self.records and self.records[0].position < head.position:
            record = self.records.popleft()
            self.record_bytes -= record.length
            dropped.append(record_name(self.container, record.position))
        return dropped

    @property
    def begins_inside_a_record(self) -> bool:
        """Whether the first record has frames in front of the head, or may have."""
        if not self.records:
            return False
        return self.records[0].address is None or self.records[0].address < self.head.address


class RecordChain:
    """What is read of a log: each record follows the one before without a gap."""

    def __init__(self, head: Head) -> None:
        self._head = head
        self._next_address: int | None = None

    def frames_of(self, found: LogObject, name: str) -> Iterable[tuple[int, memoryview]]:
        """Return the frames of the next record that the log still has, with their addresses.

        Raises:
            DataCorruptionError: it is no record, or does not follow the one before.
        """
        address = found.header.address
        if found.header.kind is not Kind.RECORD:
            raise DataCorruptionError("something else is in the place of a record", path=name)
        if self._next_address is None:
            follows = address <= self._head.address
            expected = self._head.address
        else:
            follows = address == self._next_address
            expected = self._next_address
        if not follows:
            raise DataCorruptionError(
                f"the record begins at address {address} instead of {expected}: those between are lost",
                path=name,
            )
        self._next_address = address + len(found.frames)
        numbered = enumerate(found.frames, start=address)
        return [(number, frame) for number, frame in numbered if number >= self._head.address]
