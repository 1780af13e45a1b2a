"""Every kind of operation of a container's durable log.

Operations are facts, not requests: offsets are assigned, attribute conditions are evaluated and replaced by
their results, so that a replay decides nothing again. ``docs/formats/operation.md`` describes their bytes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import ClassVar

Buffer = bytes | bytearray | memoryview


class OperationKind(IntEnum):
    """First byte of every operation. Persisted: never reuse a number. Names are printed by inspection."""

    APPEND_RUN = 1
    APPEND = 2
    SEAL = 3
    TRUNCATE = 4
    MERGE = 5
    DELETE = 6
    MAP_SEGMENT = 7
    UPDATE_ATTRIBUTES = 8
    CHECKPOINT_BEGIN = 9
    CHECKPOINT_PART = 10
    CHECKPOINT_END = 11
    STORAGE_ROWS = 12
    EVICT_SEGMENTS = 13
    ACTIVATE_SEGMENT = 14


@dataclass(slots=True)
class AppendBatch:
    """An append batch: blocks of one writer that arrived together, contiguous, with one last event number."""

    kind: ClassVar = OperationKind.APPEND_RUN
    sequence: int
    segment_id: int
    offset: int
    writer_id: bytes
    last_event_number: int
    event_count: int
    data: Buffer


@dataclass(slots=True)
class Append:
    """Bytes with any attribute changes; ``values`` are results, to be stored as they are."""

    kind: ClassVar = OperationKind.APPEND
    sequence: int
    segment_id: int
    offset: int
    values: Mapping[bytes, int]
    data: Buffer


@dataclass(slots=True)
class Seal:
    """``offset`` is the final length."""

    kind: ClassVar = OperationKind.SEAL
    sequence: int
    segment_id: int
    offset: int


@dataclass(slots=True)
class Truncate:
    """``offset`` is the new start offset."""

    kind: ClassVar = OperationKind.TRUNCATE
    sequence: int
    segment_id: int
    offset: int


@dataclass(slots=True)
class Merge:
    """The whole content of ``source_id`` becomes ``[offset, offset + length)`` of ``segment_id``."""

    kind: ClassVar = OperationKind.MERGE
    sequence: int
    segment_id: int
    source_id: int
    offset: int
    length: int
    values: Mapping[bytes, int]


@dataclass(slots=True)
class Delete:
    kind: ClassVar = OperationKind.DELETE
    sequence: int
    segment_id: int


@dataclass(slots=True)
class MapSegment:
    """A segment is created. Its id is the sequence number of this operation."""

    kind: ClassVar = OperationKind.MAP_SEGMENT
    sequence: int
    segment_id: int
    name: str
    values: Mapping[bytes, int]


@dataclass(slots=True)
class UpdateAttributes:
    kind: ClassVar = OperationKind.UPDATE_ATTRIBUTES
    sequence: int
    segment_id: int
    values: Mapping[bytes, int]


@dataclass(slots=True)
class CheckpointBegin:
    """A metadata checkpoint starts: its parts describe the state right before this operation.

    Operations may lie between the parts. The log may be truncated in front of the frame of this one.
    """

    kind: ClassVar = OperationKind.CHECKPOINT_BEGIN
    sequence: int
    container_id: int
    container_epoch: int


@dataclass(slots=True)
class CheckpointPart:
    """Some encoded segment rows and storage rows of the checkpoint that began at ``begin_sequence``."""

    kind: ClassVar = OperationKind.CHECKPOINT_PART
    sequence: int
    begin_sequence: int
    segment_rows: Sequence[Buffer]
    storage_rows: Mapping[str, bytes]


@dataclass(slots=True)
class CheckpointEnd:
    """The checkpoint that began at ``begin_sequence`` is whole if it has exactly these counts."""

    kind: ClassVar = OperationKind.CHECKPOINT_END
    sequence: int
    begin_sequence: int
    segment_count: int
    storage_row_count: int


@dataclass(slots=True)
class StorageRows:
    """Rows of long-term storage's metadata, put (bytes) or removed (None) together."""

    kind: ClassVar = OperationKind.STORAGE_ROWS
    sequence: int
    changes: Mapping[str, bytes | None] = field(default_factory=dict)


@dataclass(slots=True)
class EvictSegments:
    """Idle segments become inactive: rows in the segment catalogue, written before this, stand for them."""

    kind: ClassVar = OperationKind.EVICT_SEGMENTS
    sequence: int
    segment_ids: Sequence[int]
    storage_keys: Sequence[Sequence[str]] = ()
    """Keys of the rows of long-term storage evicted with each segment, in the same order; empty: there are
    none."""


@dataclass(slots=True)
class ActivateSegment:
    """An inactive segment becomes active under its old id; ``row`` is its segment row, as in checkpoints.

    ``storage_rows`` are the rows of long-term storage that were evicted with it.
    """

    kind: ClassVar = OperationKind.ACTIVATE_SEGMENT
    sequence: int
    segment_id: int
    row: Buffer
    storage_rows: Mapping[str, bytes] = field(default_factory=dict)


Operation = (
    AppendBatch
    | Append
    | Seal
    | Truncate
    | Merge
    | Delete
    | MapSegment
    | UpdateAttributes
    | CheckpointBegin
    | CheckpointPart
    | CheckpointEnd
    | StorageRows
    | EvictSegments
    | ActivateSegment
)
