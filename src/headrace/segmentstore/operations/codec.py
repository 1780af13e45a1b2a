"""Bytes of operations.

::

    offset  bytes  field
    0       1      kind (OperationKind)
    1       1      format version of this kind (1, or 2 of kinds 13 and 14)
    2       2      reserved, zero
    4       8      sequence number
    12      8      segment id (0 where the kind has none)
    20      ..     body, by kind; payload bytes always come last

All integers are big-endian. Source: ``docs/formats/operation.md``; pinned by ``tests/golden/operation``.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import Final

from headrace.errors import DataCorruptionError
from headrace.segmentstore.operations import catalogue as ops
from headrace.segmentstore.operations.catalogue import Buffer, Operation, OperationKind

VERSION: Final = 1
VERSION_WITH_STORAGE: Final = 2
"""Version of evictions and activations with rows of long-term storage."""

HEAD: Final = struct.Struct(">BBHqq")
APPEND_BATCH: Final = struct.Struct(">BBHqqq16sqII")
"""Head of an append batch with everything in front of its data; built in place on the append path."""
BATCH_EVENTS_MAX: Final = 0xFFFF_FFFF
"""Events that the head of an append batch can count: numbers claimed by writers are not verified."""

_I64: Final = struct.Struct(">q")
_I64_PAIR: Final = struct.Struct(">qq")
_I64_TRIPLE: Final = struct.Struct(">qqq")
_U32: Final = struct.Struct(">I")
_U16: Final = struct.Struct(">H")
_ABSENT: Final = 0xFFFF_FFFF


# ------------------------------------------------------------------------------------------ fields


def encode_values(values: Mapping[bytes, int]) -> bytes:
    """``u32 count``, then per attribute ``u16 id length, id, i64 value``."""
    parts = [_U32.pack(len(values))]
    for attribute_id, value in values.items():
        parts += (_U16.pack(len(attribute_id)), attribute_id, _I64.pack(value))
    return b"".join(parts)


def decode_values(view: memoryview, at: int) -> tuple[dict[bytes, int], int]:
    (count,) = _U32.unpack_from(view, at)
    at += 4
    values: dict[bytes, int] = {}
    for _ in range(count):
        (length,) = _U16.unpack_from(view, at)
        end = at + 2 + length
        (values[bytes(view[at + 2 : end])],) = _I64.unpack_from(view, end)
        at = end + 8
    return values, at


def _encode_text(text: str) -> bytes:
    data = text.encode()
    return _U16.pack(len(data)) + data


def _decode_text(view: memoryview, at: int) -> tuple[str, int]:
    (length,) = _U16.unpack_from(view, at)
    end = at + 2 + length
    if end > len(view):
        raise struct.error("text runs past the end")
    return str(view[at + 2 : end], "utf-8"), end


def encode_rows(rows: Mapping[str, bytes | None]) -> bytes:
    """``u32 count``, then per row ``u16 key length, key, u32 length, bytes``; a special length for None."""
    parts = [_U32.pack(len(rows))]
    for key, value in rows.items():
        parts.append(_encode_text(key))
        if value is None:
            parts.append(_U32.pack(_ABSENT))
        else:
            parts += (_U32.pack(len(value)), value)
    return b"".join(parts)


def _decode_bytes(view: memoryview, at: int, length: int) -> tuple[bytes, int]:
    end = at + length
    if end > len(view):
        raise struct.error("bytes run past the end")
    return bytes(view[at:end]), end


def decode_rows(view: memoryview, at: int) -> tuple[dict[str, bytes | None], int]:
    (count,) = _U32.unpack_from(view, at)
    at += 4
    rows: dict[str, bytes | None] = {}
    for _ in range(count):
        key, at = _decode_text(view, at)
        (length,) = _U32.unpack_from(view, at)
        if length == _ABSENT:
            rows[key], at = None, at + 4
        else:
            rows[key], at = _decode_bytes(view, at + 4, length)
    return rows, at


# ------------------------------------------------------------------------------------------ encoding


def encode(operation: Operation) -> list[Buffer]:
    """Return the operation as pieces in order; payload is passed through, not copied."""
    sequence = operation.sequence
    match operation:
        case ops.AppendBatch():
            head = APPEND_BATCH.pack(
                operation.kind,
                VERSION,
                0,
                sequence,
                operation.segment_id,
                operation.offset,
                operation.writer_id,
                operation.last_event_number,
                operation.event_count,
                len(operation.data),
            )
            return [head, operation.data]
        case ops.Append():
            body = _I64.pack(operation.offset) + encode_values(operation.values)
            head = _head(operation, operation.segment_id) + body + _U32.pack(len(operation.data))
            return [head, operation.data]
        case ops.Seal() | ops.Truncate():
            return [_head(operation, operation.segment_id) + _I64.pack(operation.offset)]
        case ops.Merge():
            body = _I64_TRIPLE.pack(operation.source_id, operation.offset, operation.length)
            return [_head(operation, operation.segment_id) + body + encode_values(operation.values)]
        case ops.Delete():
            return [_head(operation, operation.segment_id)]
        case ops.MapSegment():
            body = _encode_text(operation.name) + encode_values(operation.values)
            return [_head(operation, operation.segment_id) + body]
        case ops.UpdateAttributes():
            return [_head(operation, operation.segment_id) + encode_values(operation.values)]
        case ops.CheckpointBegin():
            return [_head(operation, 0) + _I64_PAIR.pack(operation.container_id, operation.container_epoch)]
        case ops.CheckpointPart():
            pieces: list[Buffer] = [_head(operation, 0) + _I64.pack(operation.begin_sequence)]
            pieces.append(_U32.pack(len(operation.segment_rows)))
            for row in operation.segment_rows:
                pieces += (_U32.pack(len(row)), row)
            pieces.append(encode_rows(operation.storage_rows))
            return pieces
        case ops.CheckpointEnd():
            body = _I64_TRIPLE.pack(
                operation.begin_sequence, operation.segment_count, operation.storage_row_count
            )
            return [_head(operation, 0) + body]
        case ops.StorageRows():
            return [_head(operation, 0) + encode_rows(operation.changes)]
        case ops.EvictSegments():
            return _encode_evict(operation)
        case ops.ActivateSegment():
            version = VERSION_WITH_STORAGE if operation.storage_rows else VERSION
            head = _head(operation, operation.segment_id, version) + _U32.pack(len(operation.row))
            if not operation.storage_rows:
                return [head, operation.row]
            return [head, operation.row, encode_rows(operation.storage_rows)]


def _encode_evict(operation: ops.EvictSegments) -> list[Buffer]:
    ids, keys = operation.segment_ids, operation.storage_keys
    if not any(keys):
        return [_head(operation, 0) + _U32.pack(len(ids)) + struct.pack(f">{len(ids)}q", *ids)]
    parts = [_head(operation, 0, VERSION_WITH_STORAGE), _U32.pack(len(ids))]
    for segment_id, row_keys in zip(ids, keys, strict=True):
        parts += (_I64.pack(segment_id), _U16.pack(len(row_keys)), *map(_encode_text, row_keys))
    return [b"".join(parts)]


def _head(operation: Operation, segment_id: int, version: int = VERSION) -> bytes:
    return HEAD.pack(operation.kind, version, 0, operation.sequence, segment_id)


# ------------------------------------------------------------------------------------------ decoding


def decode(view: memoryview) -> Operation:
    """Decode one whole operation. Payload is a view into ``view``.

    Raises:
        DataCorruptionError: unknown kind or version, missing or superfluous bytes.
    """
    try:
        kind, version, _, sequence, segment_id = HEAD.unpack_from(view, 0)
        reader = (_READERS if version == VERSION else _READERS_WITH_STORAGE).get(kind)
        if reader is None or not VERSION <= version <= VERSION_WITH_STORAGE:
            raise DataCorruptionError(f"operation of unknown kind {kind} version {version}")
        operation, end = reader(view, sequence, segment_id)
    except (struct.error, UnicodeDecodeError) as error:
        raise DataCorruptionError(f"operation does not decode: {error}") from error
    if end != len(view):
        raise DataCorruptionError(f"operation {sequence} has {len(view)} bytes, its fields take {end}")
    return operation


def _read_batch(view: memoryview, sequence: int, segment_id: int) -> tuple[Operation, int]:
    _, _, _, _, _, offset, writer_id, last_event_number, event_count, length = APPEND_BATCH.unpack_from(
        view, 0
    )
    end = APPEND_BATCH.size + length
    data = view[APPEND_BATCH.size : end]
    return (
        ops.AppendBatch(sequence, segment_id, offset, writer_id, last_event_number, event_count, data),
        end,
    )


def _read_append(view: memoryview, sequence: int, segment_id: int) -> tuple[Operation, int]:
    (offset,) = _I64.unpack_from(view, HEAD.size)
    values, at = decode_values(view, HEAD.size + 8)
    (length,) = _U32.unpack_from(view, at)
    end = at + 4 + length
    return ops.Append(sequence, segment_id, offset, values, view[at + 4 : end]), end


def _read_seal(view: memoryview, sequence: int, segment_id: int) -> tuple[Operation, int]:
    return ops.Seal(sequence, segment_id, _I64.unpack_from(view, HEAD.size)[0]), HEAD.size + 8


def _read_truncate(view: memoryview, sequence: int, segment_id: int) -> tuple[Operation, int]:
    return ops.Truncate(sequence, segment_id, _I64.unpack_from(view, HEAD.size)[0]), HEAD.size + 8


def _read_merge(view: memoryview, sequence: int, segment_id: int) -> tuple[Operation, int]:
    source_id, offset, length = _I64_TRIPLE.unpack_from(view, HEAD.size)
    values, end = decode_values(view, HEAD.size + 24)
    return ops.Merge(sequence, segment_id, source_id, offset, length, values), end


def _read_delete(_view: memoryview, sequence: int, segment_id: int) -> tuple[Operation, int]:
    return ops.Delete(sequence, segment_id), HEAD.size


def _read_map(view: memoryview, sequence: int, segment_id: int) -> tuple[Operation, int]:
    name, at = _decode_text(view, HEAD.size)
    values, end = decode_values(view, at)
    return ops.MapSegment(sequence, segment_id, name, values), end


def _read_update(view: memoryview, sequence: int, segment_id: int) -> tuple[Operation, int]:
    values, end = decode_values(view, HEAD.size)
    return ops.UpdateAttributes(sequence, segment_id, values), end


def _read_begin(view: memoryview, sequence: int, _segment_id: int) -> tuple[Operation, int]:
    container_id, container_epoch = _I64_PAIR.unpack_from(view, HEAD.size)
    return ops.CheckpointBegin(sequence, container_id, container_epoch), HEAD.size + 16


def _read_part(view: memoryview, sequence: int, _segment_id: int) -> tuple[Operation, int]:
    (begin,) = _I64.unpack_from(view, HEAD.size)
    (count,) = _U32.unpack_from(view, HEAD.size + 8)
    at = HEAD.size + 12
    segment_rows: list[Buffer] = []
    for _ in range(count):
        (length,) = _U32.unpack_from(view, at)
        row, at = _decode_bytes(view, at + 4, length)
        segment_rows.append(row)
    rows, end = decode_rows(view, at)
    present = {key: value for key, value in rows.items() if value is not None}
    return ops.CheckpointPart(sequence, begin, segment_rows, present), end


def _read_end(view: memoryview, sequence: int, _segment_id: int) -> tuple[Operation, int]:
    begin, segment_count, row_count = _I64_TRIPLE.unpack_from(view, HEAD.size)
    return ops.CheckpointEnd(sequence, begin, segment_count, row_count), HEAD.size + 24


def _read_storage_rows(view: memoryview, sequence: int, _segment_id: int) -> tuple[Operation, int]:
    changes, end = decode_rows(view, HEAD.size)
    return ops.StorageRows(sequence, changes), end


def _read_evict(view: memoryview, sequence: int, _segment_id: int) -> tuple[Operation, int]:
    (count,) = _U32.unpack_from(view, HEAD.size)
    at = HEAD.size + 4
    if count > (len(view) - at) // _I64.size:
        raise struct.error("ids run past the end")
    ids = struct.unpack_from(f">{count}q", view, at)
    return ops.EvictSegments(sequence, list(ids)), at + count * _I64.size


def _read_evict_with_storage(view: memoryview, sequence: int, _segment_id: int) -> tuple[Operation, int]:
    (count,) = _U32.unpack_from(view, HEAD.size)
    at = HEAD.size + 4
    ids: list[int] = []
    keys: list[list[str]] = []
    for _ in range(count):
        (segment_id,) = _I64.unpack_from(view, at)
        (key_count,) = _U16.unpack_from(view, at + 8)
        at += 10
        row_keys: list[str] = []
        for _ in range(key_count):
            key, at = _decode_text(view, at)
            row_keys.append(key)
        ids.append(segment_id)
        keys.append(row_keys)
    return ops.EvictSegments(sequence, ids, keys), at


def _read_activate_with_storage(view: memoryview, sequence: int, segment_id: int) -> tuple[Operation, int]:
    (length,) = _U32.unpack_from(view, HEAD.size)
    row, at = _decode_bytes(view, HEAD.size + 4, length)
    rows, end = decode_rows(view, at)
    present = {key: value for key, value in rows.items() if value is not None}
    return ops.ActivateSegment(sequence, segment_id, row, present), end


def _read_activate(view: memoryview, sequence: int, segment_id: int) -> tuple[Operation, int]:
    (length,) = _U32.unpack_from(view, HEAD.size)
    row, end = _decode_bytes(view, HEAD.size + 4, length)
    return ops.ActivateSegment(sequence, segment_id, row), end


_READERS: Final[dict[int, Callable[[memoryview, int, int], tuple[Operation, int]]]] = {
    OperationKind.APPEND_RUN: _read_batch,
    OperationKind.APPEND: _read_append,
    OperationKind.SEAL: _read_seal,
    OperationKind.TRUNCATE: _read_truncate,
    OperationKind.MERGE: _read_merge,
    OperationKind.DELETE: _read_delete,
    OperationKind.MAP_SEGMENT: _read_map,
    OperationKind.UPDATE_ATTRIBUTES: _read_update,
    OperationKind.CHECKPOINT_BEGIN: _read_begin,
    OperationKind.CHECKPOINT_PART: _read_part,
    OperationKind.CHECKPOINT_END: _read_end,
    OperationKind.STORAGE_ROWS: _read_storage_rows,
    OperationKind.EVICT_SEGMENTS: _read_evict,
    OperationKind.ACTIVATE_SEGMENT: _read_activate,
}
_READERS_WITH_STORAGE: Final[dict[int, Callable[[memoryview, int, int], tuple[Operation, int]]]] = {
    OperationKind.EVICT_SEGMENTS: _read_evict_with_storage,
    OperationKind.ACTIVATE_SEGMENT: _read_activate_with_storage,
}
