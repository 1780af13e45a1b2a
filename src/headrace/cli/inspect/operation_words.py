"""One operation in words: what each kind carries, with names for segments, writers and attributes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import UUID

from headrace.cli.inspect.attribute_names import attribute_words
from headrace.segmentstore.operations import catalogue as ops
from headrace.segmentstore.operations.catalogue import Operation
from headrace.segmentstore.state.metadata_checkpoint import decode_segment_row
from headrace.storage.chunks.chunk_names import segment_of

_ROWS_SHOWN: Final = 3


@dataclass(slots=True)
class OperationWords:
    """Fields of one operation, ready to be shown. Offsets and lengths in bytes."""

    sequence: int
    kind: str
    segment: str | None
    segment_id: int
    fields: dict[str, Any] = field(default_factory=dict)
    attributes: dict[str, int | None] = field(default_factory=dict)
    rows: dict[str, int | None] = field(default_factory=dict)
    """Storage rows by key: bytes put, None for one that was removed."""

    def is_about(self, segment: str) -> bool:
        """Whether the operation changes, merges or stores a segment of that name."""
        if self.segment == segment or self.fields.get("source") == segment:
            return True
        if self.kind == "evict-segments" and segment in self.fields["segments"]:
            return True
        return any(_row_segment(key) == segment for key in self.rows)

    def document(self) -> dict[str, Any]:
        """Return everything as JSON values."""
        found: dict[str, Any] = {"sequence": self.sequence, "kind": self.kind}
        if self.segment_id:
            found |= {"segment": self.segment, "segment_id": self.segment_id}
        found |= self.fields
        if self.attributes:
            found["attributes"] = self.attributes
        if self.rows:
            found["rows"] = self.rows
        return found

    def details(self) -> str:
        """Return everything but the head, on one line."""
        words = [f"{name}={_text(value)}" for name, value in self.fields.items()]
        words += [
            f"{name}={'removed' if value is None else value}" for name, value in self.attributes.items()
        ]
        for key, size in list(self.rows.items())[:_ROWS_SHOWN]:
            words.append(f"-{key}" if size is None else f"+{key}")
        if len(self.rows) > _ROWS_SHOWN:
            words.append(f"and {len(self.rows) - _ROWS_SHOWN} rows more")
        return " ".join(words)


def describe_operation(operation: Operation, names: Mapping[int, str]) -> OperationWords:
    """Put an operation into words; ``names`` are those of the segments known so far, by id."""
    segment_id = getattr(operation, "segment_id", 0)
    words = OperationWords(
        operation.sequence,
        operation.kind.name.lower().replace("_", "-"),
        names.get(segment_id) if segment_id else None,
        segment_id,
    )
    match operation:
        case ops.AppendBatch():
            words.fields = {
                "offset": operation.offset,
                "length": len(operation.data),
                "writer": str(UUID(bytes=bytes(operation.writer_id))),
                "last_event_number": operation.last_event_number,
                "event_count": operation.event_count,
            }
        case ops.Append():
            words.fields = {"offset": operation.offset, "length": len(operation.data)}
            words.attributes = attribute_words(operation.values)
        case ops.Seal() | ops.Truncate():
            words.fields = {"offset": operation.offset}
        case ops.Merge():
            words.fields = {
                "offset": operation.offset,
                "length": operation.length,
                "source": names.get(operation.source_id),
                "source_id": operation.source_id,
            }
            words.attributes = attribute_words(operation.values)
        case ops.MapSegment() | ops.UpdateAttributes():
            words.attributes = attribute_words(operation.values)
        case ops.StorageRows():
            words.rows = {
                key: None if value is None else len(value) for key, value in operation.changes.items()
            }
        case ops.EvictSegments():
            words.fields = {"segments": [names.get(each, each) for each in operation.segment_ids]}
            if operation.storage_keys:
                words.fields["storage_rows"] = sum(map(len, operation.storage_keys))
        case ops.ActivateSegment():
            row = decode_segment_row(operation.row)
            words.segment = row.name
            words.fields = {
                "start_offset": row.start_offset,
                "length": row.durable_length,
                "sealed": row.sealed,
            }
            if operation.storage_rows:
                words.fields["storage_rows"] = len(operation.storage_rows)
            words.attributes = attribute_words(row.attributes.durable)
        case _:
            words.fields = _checkpoint_fields(operation)
    return words


def _checkpoint_fields(operation: Operation) -> dict[str, Any]:
    match operation:
        case ops.CheckpointBegin():
            return {"container": operation.container_id, "container_epoch": operation.container_epoch}
        case ops.CheckpointPart():
            return {
                "begin": operation.begin_sequence,
                "segment_rows": len(operation.segment_rows),
                "storage_rows": len(operation.storage_rows),
            }
        case ops.CheckpointEnd():
            return {
                "begin": operation.begin_sequence,
                "segments": operation.segment_count,
                "storage_rows": operation.storage_row_count,
            }
        case _:
            return {}


def _row_segment(key: str) -> str:
    """Return the segment a storage row is about: those of chunks carry its name as well."""
    name = key[2:]
    if key.startswith("k/"):
        name = name.rpartition("/")[0]
    if not key.startswith("s/"):
        name = segment_of(name)
    return name.rpartition(".")[0]


def _text(value: object) -> str:
    if not isinstance(value, list):
        return str(value)
    shown = ",".join(map(str, value[:_ROWS_SHOWN]))
    return shown if len(value) <= _ROWS_SHOWN else f"{shown},and {len(value) - _ROWS_SHOWN} more"
