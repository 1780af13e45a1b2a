"""A metadata checkpoint: the whole accepted state of a container, as rows, written into its own log.

A segment's row is encoded once and cached until the segment changes, so a checkpoint of 25,000 segments of
which three changed encodes three. Rows are in parts of bounded size between a *begin* and an *end* operation;
they describe the state right before *begin*, whatever happens between the parts.

::

    segment row
    0    1   row version (4; 1 does not tell of an attribute index)
    1    1   flags: 1 sealed, 2 merged, 4 deleted, 8 has an attribute index
    2    8   segment id
    10   8   start offset
    18   8   length
    26   8   last modified, epoch ms
    34   2+n name
    ..   ..  attributes as in operations

A row larger than a part is split into pieces, consecutive entries of their own: a first byte of 2, or of 3
for the last piece, then bytes of the row. So it fits the log however many writers a segment has had.

Source: ``docs/formats/operation.md``.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from typing import Final

from headrace.errors import DataCorruptionError
from headrace.segmentstore.operations.catalogue import Buffer
from headrace.segmentstore.operations.codec import decode_values, encode_values
from headrace.segmentstore.state.container_state import ContainerState
from headrace.segmentstore.state.segment_attributes import SegmentAttributes
from headrace.segmentstore.state.segment_state import SegmentState

_ROW: Final = struct.Struct(">BBqqqqH")
ROW_VERSION: Final = 4
_VERSION_1: Final = 1
_SEALED: Final = 1
_MERGED: Final = 2
_DELETED: Final = 4
_HAS_INDEX: Final = 8

_PIECE: Final = 2
_LAST_PIECE: Final = 3


def encode_segment_row(state: SegmentState) -> bytes:
    """Return the row of the accepted side of ``state``, the cached one if nothing changed."""
    if state.checkpoint_row is None:
        name = state.name.encode()
        flags = (
            _SEALED * state.accepted_sealed
            + _MERGED * state.accepted_merged
            + _DELETED * state.accepted_deleted
            + _HAS_INDEX * state.attributes.has_index
        )
        head = _ROW.pack(
            ROW_VERSION,
            flags,
            state.segment_id,
            state.accepted_start_offset,
            state.accepted_length,
            state.last_modified_ms,
            len(name),
        )
        state.checkpoint_row = head + name + encode_values(state.attributes.checkpoint_values())
    return state.checkpoint_row


def decode_segment_row(row: Buffer) -> SegmentState:
    """Return a segment with accepted and durable sides from the row, and a stored length of 0.

    Raises:
        DataCorruptionError: the row does not decode.
    """
    view = memoryview(row)
    try:
        version, flags, segment_id, start, length, modified, name_length = _ROW.unpack_from(view, 0)
        if version not in {ROW_VERSION, _VERSION_1}:
            raise DataCorruptionError(f"segment row of unknown version {version}")
        end = _ROW.size + name_length
        name = str(view[_ROW.size : end], "utf-8")
        values, end = decode_values(view, end)
    except (struct.error, UnicodeDecodeError) as error:
        raise DataCorruptionError(f"segment row does not decode: {error}") from error
    if end != len(view):
        raise DataCorruptionError(f"segment row of {name!r} has {len(view) - end} bytes too many")
    attributes = SegmentAttributes(values)
    if flags & _HAS_INDEX:
        attributes.note_index()
    return SegmentState(
        segment_id,
        name,
        start_offset=start,
        accepted_start_offset=start,
        durable_length=length,
        accepted_length=length,
        sealed=bool(flags & _SEALED),
        accepted_sealed=bool(flags & _SEALED),
        merged=bool(flags & _MERGED),
        accepted_merged=bool(flags & _MERGED),
        deleted=bool(flags & _DELETED),
        accepted_deleted=bool(flags & _DELETED),
        last_modified_ms=modified,
        attributes=attributes,
    )


def is_of_version_1(row: Buffer) -> bool:
    """Whether a row does not tell whether its segment has an attribute index."""
    return len(row) > 0 and row[0] == _VERSION_1


def split_row(row: bytes, bytes_max: int) -> Iterator[bytes]:
    """Yield a row for checkpoint parts: whole, or in pieces of at most ``bytes_max`` bytes."""
    if len(row) <= bytes_max:
        yield row
        return
    step = max(1, bytes_max - 1)
    last = (len(row) - 1) // step * step
    for begin in range(0, len(row), step):
        kind = _LAST_PIECE if begin == last else _PIECE
        yield bytes((kind,)) + row[begin : begin + step]


def join_rows(rows: Iterable[Buffer]) -> Iterator[Buffer]:
    """Yield the whole rows of checkpoint parts, in their order.

    Raises:
        DataCorruptionError: pieces of a row are missing.
    """
    pieces: list[Buffer] = []
    for row in rows:
        kind = row[0] if len(row) else ROW_VERSION
        if kind in (_PIECE, _LAST_PIECE):
            pieces.append(memoryview(row)[1:])
            if kind == _LAST_PIECE:
                yield b"".join(pieces)
                pieces = []
        elif pieces:
            break
        else:
            yield row
    if pieces:
        raise DataCorruptionError("a segment row of a checkpoint ends in the middle")


class CheckpointSnapshot:
    """The rows of one checkpoint, taken at one instant."""

    def __init__(self, container: ContainerState) -> None:
        self.segment_rows = [encode_segment_row(state) for state in container.by_id.values()]
        self.storage_rows = list(container.accepted_storage_rows.items())

    def parts(self, bytes_max: int) -> Iterator[tuple[list[Buffer], dict[str, bytes]]]:
        """Yield (segment rows, storage rows) in parts of about ``bytes_max`` bytes."""
        segments: list[Buffer] = []
        rows: dict[str, bytes] = {}
        size = 0
        for row in self.segment_rows:
            for piece in split_row(row, bytes_max):
                segments.append(piece)
                size += len(piece) + 4
                if size >= bytes_max:
                    yield segments, rows
                    segments, rows, size = [], {}, 0
        for key, value in self.storage_rows:
            rows[key] = value
            size += len(key) + len(value) + 8
            if size >= bytes_max:
                yield segments, rows
                segments, rows, size = [], {}, 0
        if segments or rows:
            yield segments, rows


def install(
    container: ContainerState,
    segment_rows: Iterable[Buffer],
    storage_rows: dict[str, bytes],
) -> Iterator[int]:
    """Replace the state of ``container`` by the content of a checkpoint; complete when exhausted.

    The log begins with it, so it was truncated there: all that the rows tell of is stored, or was not needed
    because of a deletion, which follows in the log if the row does not have it.

    Yields after each segment row its length: 25,000 take 0.25 s.
    """
    container.by_id = {}
    container.by_name = {}
    container.retired = {}
    for row in segment_rows:
        state = decode_segment_row(row)
        container.by_id[state.segment_id] = state
        if state.deleted or state.merged:
            container.retired[state] = None
        else:
            state.note_all_stored()
            container.by_name[state.name] = state
        yield len(row)
    container.storage_rows = dict(storage_rows)
    container.accepted_storage_rows = dict(storage_rows)
    for key in storage_rows:
        container.note_index(key)
