"""How far each sink has come in one stream: the row on which batches are decided.

``fence`` has no meaning of its own: writing it changes the version of the row, so that whoever read the row
earlier cannot decide any more. Source: ``docs/formats/controller-rows.md``, "W: watermarks of sinks".
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Final

from headrace.controller.store.rows.fields import FieldReader, FieldWriter
from headrace.errors import DataCorruptionError

KIND: Final = b"W"
VERSION: Final = 1


class SinkPhase(IntEnum):
    DECIDED = 1
    """The batch is in. Its transactions are being handed to the commit order."""
    DONE = 2


@dataclass(frozen=True, slots=True)
class SinkMark:
    """The last batch of a sink; ``txn_ids`` in commit order while DECIDED, empty once DONE."""

    sink: str
    query: str
    batch: int
    phase: SinkPhase
    time_ms: int
    txn_ids: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class SinksRow:
    """All sinks of one stream, by name."""

    fence: int = 0
    marks: dict[str, SinkMark] = field(default_factory=dict)

    def decided(self) -> Iterator[SinkMark]:
        return (mark for mark in self.marks.values() if mark.phase is SinkPhase.DECIDED)

    def with_mark(self, mark: SinkMark) -> SinksRow:
        return replace(self, marks={**self.marks, mark.sink: mark})

    def fenced(self) -> SinksRow:
        return replace(self, fence=self.fence + 1)


def encode_sinks(row: SinksRow) -> bytes:
    writer = FieldWriter(KIND, VERSION)
    writer.uint(row.fence)
    writer.uint(len(row.marks))
    for mark in row.marks.values():
        writer.text(mark.sink)
        writer.text(mark.query)
        writer.sint(mark.batch)
        writer.uint(mark.phase)
        writer.uint(mark.time_ms)
        writer.uint(len(mark.txn_ids))
        for txn_id in mark.txn_ids:
            writer.fixed(txn_id.to_bytes(16, "big"))
    return writer.to_bytes()


def decode_sinks(data: bytes) -> SinksRow:
    """Raises DataCorruptionError."""
    reader = FieldReader(data, KIND, (VERSION,))
    fence = reader.uint()
    marks: dict[str, SinkMark] = {}
    for _ in range(reader.count(6)):
        sink, query, batch = reader.text(), reader.text(), reader.sint()
        try:
            phase = SinkPhase(reader.uint())
        except ValueError as error:
            raise DataCorruptionError(f"a row of sinks holds {error}") from None
        time_ms = reader.uint()
        txn_ids = tuple(int.from_bytes(reader.fixed(16), "big") for _ in range(reader.count(16)))
        marks[sink] = SinkMark(sink, query, batch, phase, time_ms, txn_ids)
    reader.end()
    return SinksRow(fence, marks)
