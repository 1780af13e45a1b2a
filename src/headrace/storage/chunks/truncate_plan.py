"""Dropping a segment's head, or all of it: metadata here, objects later by the garbage collector."""

from __future__ import annotations

from dataclasses import replace

from headrace.errors import InvalidArgumentError
from headrace.storage.chunks.chunk_index import ChunkIndex
from headrace.storage.chunks.segment_layout import Rows, SegmentLayout
from headrace.storage.metadata.rows import GarbageRow, segment_key


def check_truncate(layout: SegmentLayout, offset: int) -> None:
    """Raises: InvalidArgumentError: ``offset`` lies beyond the stored length."""
    if offset > layout.length:
        raise InvalidArgumentError(
            f"segment {layout.segment!r} has {layout.length} stored bytes; it cannot start at {offset}"
        )


def plan_truncate(
    layout: SegmentLayout, index: ChunkIndex | None, offset: int, *, container_epoch: int
) -> tuple[SegmentLayout, Rows, GarbageRow | None]:
    """Drop the bytes below ``offset``: the new layout, its rows, and the chunks that became garbage.

    Chunks that end at or before ``offset`` are dropped; a chunk that ends behind it stays whole. ``offset``
    lies above the start offset, which the caller has checked, and ``index`` has its chunk unless that is the
    last; without an index no chunk is dropped, and the first ones may end below the new start.

    Raises:
        InvalidArgumentError: ``offset`` lies beyond the stored length.
    """
    assert offset > layout.start_offset
    check_truncate(layout, offset)
    after = replace(layout, owner_epoch=container_epoch, start_offset=offset)
    if layout.last is None:
        dropped = 0
        after.first_chunk_start = layout.length
    elif offset == layout.length:
        dropped = layout.chunk_count
        after.first_chunk, after.first_chunk_start, after.last = "", layout.length, None
    elif offset >= layout.last_start:
        dropped = layout.chunk_count - 1
        after.first_chunk, after.first_chunk_start = layout.last.name, layout.last_start
    elif index is None:
        dropped = 0
    else:
        dropped, after.first_chunk, after.first_chunk_start = index.find(offset)
    after.chunk_count -= dropped
    rows: Rows = {}
    after.put_segment_row(rows)
    return after, rows, GarbageRow(layout.first_chunk, dropped) if dropped else None


def plan_delete(layout: SegmentLayout) -> tuple[Rows, GarbageRow | None]:
    """Forget the segment: the rows, and its chunks, all garbage now."""
    rows: Rows = {segment_key(layout.segment): None}
    return rows, GarbageRow(layout.first_chunk, layout.chunk_count) if layout.chunk_count else None
