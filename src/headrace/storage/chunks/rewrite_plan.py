"""Neighbouring chunks of a segment replaced by others with the same bytes: the rows that make it so.

::

    | a |  b  |c| d |   e     |        b, c and d were small
    | a |    bcd    |   e     |        a has a new chunk behind it; b, c and d are garbage, linked as before

The bytes are copied before, without a lock. So this looks whether the chunks are still what they were: the
segment may have been truncated, joined to another, deleted, or rewritten here by another caller.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from headrace.storage.chunks.append_plan import AppendPiece, put_checksum_rows
from headrace.storage.chunks.chunk_index import ChunkIndex, Neighbours
from headrace.storage.chunks.segment_layout import (
    Chunk,
    GetRow,
    Rows,
    SegmentLayout,
    load_chunk,
    put_chunk_row,
)
from headrace.storage.metadata.rows import GarbageRow


@dataclass(frozen=True, slots=True)
class Stretch:
    """Chunks that follow each other, to be replaced by others that hold ``[begin, end)`` of the segment."""

    segment: str
    names: tuple[str, ...]
    start: int
    """Where in the segment the first of them starts: ``begin``, if no part of it is truncated."""
    begin: int
    end: int

    @property
    def length(self) -> int:
        return self.end - self.begin


@dataclass(slots=True)
class Rewrite:
    """What a commit of ``rows`` makes true; ``old`` became garbage."""

    after: SegmentLayout
    rows: Rows
    garbage: GarbageRow
    old: Neighbours


def stretch_of(layout: SegmentLayout, found: Neighbours, chunks: range) -> Stretch:
    """Return the ``chunks`` of those found, without what of them is truncated."""
    start, end = found.starts[chunks.start], found.starts[chunks.stop]
    names = tuple(found.names[chunks.start : chunks.stop])
    return Stretch(layout.segment, names, start, max(start, layout.start_offset), end)


def find_stretch(layout: SegmentLayout, index: ChunkIndex, stretch: Stretch) -> Neighbours | None:
    """Return the chunks of a stretch if they are part of the segment still, exactly as they were.

    ``index`` reaches its end.
    """
    if layout.last is None or not layout.first_chunk_start <= stretch.start < layout.length:
        return None
    found = index.neighbours(layout, stretch.start, len(stretch.names))
    is_same = tuple(found.names) == stretch.names
    return found if is_same and (found.starts[0], found.starts[-1]) == (stretch.start, stretch.end) else None


def plan_rewrite(
    layout: SegmentLayout,
    index: ChunkIndex,
    old: Neighbours,
    stretch: Stretch,
    pieces: Sequence[AppendPiece],
    get: GetRow,
    *,
    container_epoch: int,
    block_bytes: int,
) -> Rewrite:
    """Put ``pieces``, written as new chunks, in place of ``old``, which are those of the stretch.

    Raises:
        DataCorruptionError: the row of a chunk is damaged or missing.
        RowsNotLoadedError: one is not in memory.
    """
    assert sum(piece.length for piece in pieces) == stretch.length
    rows: Rows = {}
    _, following = load_chunk(stretch.names[-1], get)
    new = [
        Chunk(piece.chunk, container_epoch, piece.length, block_bytes, piece.checksums) for piece in pieces
    ]
    behind = [*(chunk.name for chunk in new[1:]), following]
    for piece, chunk, name in zip(pieces, new, behind, strict=True):
        put_chunk_row(rows, chunk, name)
        put_checksum_rows(rows, chunk.name, 0, piece.full_groups)
    after = replace(
        layout, owner_epoch=container_epoch, chunk_count=layout.chunk_count - len(old.names) + len(new)
    )
    if old.number:
        assert stretch.begin == stretch.start
        in_front, _ = load_chunk(index.name_at(old.number - 1), get)
        put_chunk_row(rows, in_front, new[0].name)
    else:
        after.first_chunk, after.first_chunk_start = new[0].name, stretch.begin
    if not following:
        after.last = new[-1]
    after.put_segment_row(rows)
    return Rewrite(after, rows, GarbageRow(stretch.names[0], len(stretch.names)), old)
