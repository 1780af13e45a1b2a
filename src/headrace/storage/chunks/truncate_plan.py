"""Dropping a segment's head, or all of it: metadata first, objects later and by others."""

from __future__ import annotations

from headrace.errors import InvalidArgumentError
from headrace.storage.chunks.segment_layout import Rows, SegmentLayout
from headrace.storage.metadata.rows import GarbageRow, segment_key


def plan_truncate(
    layout: SegmentLayout, offset: int, *, epoch: int
) -> tuple[SegmentLayout, Rows, GarbageRow | None]:
    """Drop the bytes below ``offset``: the new layout, its rows, and the chunks that became garbage.

    Chunks that end at or before ``offset`` go; a chunk that ends behind it stays whole. ``offset`` lies above
    the start offset (the caller has answered others).

    Raises:
        InvalidArgumentError: ``offset`` lies beyond the stored length.
    """
    assert offset > layout.start_offset
    if offset > layout.length:
        raise InvalidArgumentError(
            f"segment {layout.segment!r} has {layout.length} stored bytes; it cannot start at {offset}"
        )
    kept_from = layout.index_of(offset) if offset < layout.length else len(layout.chunks)
    after = layout.copy()
    after.owner_epoch = epoch
    after.start_offset = offset
    del after.chunks[:kept_from]
    del after.starts[:kept_from]
    rows: Rows = {}
    after.put_segment_row(rows)
    garbage = GarbageRow(layout.chunks[0].name, kept_from) if kept_from else None
    return after, rows, garbage


def plan_delete(layout: SegmentLayout) -> tuple[Rows, GarbageRow | None]:
    """Forget the segment: the rows, and its chunks, all garbage now."""
    rows: Rows = {segment_key(layout.segment): None}
    return rows, GarbageRow(layout.chunks[0].name, len(layout.chunks)) if layout.chunks else None
