"""How far a sink has come in one stream: the row on which its batches are decided; and which sinks there are.

``fence`` has no meaning of its own: writing it changes the version of the row, so that a caller that read it
earlier cannot decide any more. Source: ``docs/formats/controller-rows.md``, "W: sink", "X: names of sinks".
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final

from headrace.errors import DataCorruptionError
from headrace.model.fields import FieldReader, FieldWriter
from headrace.model.names import SINGLE_BATCH_QUERY

SINK_KIND: Final = b"W"
NAMES_KIND: Final = b"X"
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

    @property
    def is_single(self) -> bool:
        """Whether the sink has no other batch than this one: only the call that commits it is repeated."""
        return self.query == SINGLE_BATCH_QUERY != self.sink


@dataclass(frozen=True, slots=True)
class SinkRow:
    """One sink of one stream; without a mark nothing was decided yet."""

    fence: int = 0
    mark: SinkMark | None = None


@dataclass(frozen=True, slots=True)
class SinkNamesRow:
    """Every sink that may have a row, with the time it was first seen, oldest first."""

    first_seen_ms: dict[str, int] = field(default_factory=dict)


def encode_sink(row: SinkRow) -> bytes:
    writer = FieldWriter(SINK_KIND, VERSION)
    writer.uint(row.fence)
    writer.flag(row.mark is not None)
    if row.mark is not None:
        writer.text(row.mark.sink)
        writer.text(row.mark.query)
        writer.sint(row.mark.batch)
        writer.uint(row.mark.phase)
        writer.uint(row.mark.time_ms)
        writer.uint(len(row.mark.txn_ids))
        for txn_id in row.mark.txn_ids:
            writer.fixed(txn_id.to_bytes(16, "big"))
    return writer.to_bytes()


def decode_sink(data: bytes) -> SinkRow:
    """Raises DataCorruptionError."""
    reader = FieldReader(data, SINK_KIND, (VERSION,))
    fence = reader.uint()
    mark = _read_mark(reader) if reader.flag() else None
    reader.end()
    return SinkRow(fence, mark)


def _read_mark(reader: FieldReader) -> SinkMark:
    sink, query, batch = reader.text(), reader.text(), reader.sint()
    try:
        phase = SinkPhase(reader.uint())
    except ValueError as error:
        raise DataCorruptionError(f"a sink row holds {error}") from None
    time_ms = reader.uint()
    txn_ids = tuple(int.from_bytes(reader.fixed(16), "big") for _ in range(reader.count(16)))
    return SinkMark(sink, query, batch, phase, time_ms, txn_ids)


def encode_sink_names(row: SinkNamesRow) -> bytes:
    writer = FieldWriter(NAMES_KIND, VERSION)
    writer.uint(len(row.first_seen_ms))
    for name, time_ms in row.first_seen_ms.items():
        writer.text(name)
        writer.uint(time_ms)
    return writer.to_bytes()


def decode_sink_names(data: bytes) -> SinkNamesRow:
    """Raises DataCorruptionError."""
    reader = FieldReader(data, NAMES_KIND, (VERSION,))
    names = {reader.text(): reader.uint() for _ in range(reader.count(2))}
    reader.end()
    return SinkNamesRow(names)
