"""Where appended bytes go: behind the last chunk, then into new chunks of at most the rollover size."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from headrace.storage.chunks.segment_layout import Chunk, Rows, SegmentLayout, put_chunk_row
from headrace.storage.metadata.rows import checksum_key, encode_checksum_row, full_group_count


@dataclass(slots=True)
class AppendPiece:
    """``length`` bytes, from ``begin`` of what is appended, go to ``chunk`` at ``chunk_offset``."""

    chunk: str
    chunk_offset: int
    begin: int
    length: int
    is_new: bool
    full_groups: list[array[int]] = field(default_factory=list)
    """Filled while it is written: groups of checksums completed by this piece."""

    checksums: array[int] = field(default_factory=lambda: array("I"))
    """Filled while it is written: checksums behind the last full group."""


def plan_append(
    layout: SegmentLayout, length: int, *, extends_last: bool, name_chunk: Callable[[int], str]
) -> list[AppendPiece]:
    """Distribute ``length`` bytes behind the end of the segment.

    Args:
        layout: what is there.
        length: how many bytes follow, more than none.
        extends_last: whether the last chunk may grow: it is of this container epoch, the provider can append,
            and no earlier write left bytes behind its end.
        name_chunk: makes the name of a new chunk from its offset in the segment.
    """
    assert length > 0
    pieces: list[AppendPiece] = []
    begin = 0
    last = layout.last
    if extends_last and last is not None:
        part = min(length, layout.rollover_bytes - last.length)
        if part > 0:
            pieces.append(AppendPiece(last.name, last.length, 0, part, is_new=False))
            begin = part
    while begin < length:
        part = min(length - begin, layout.rollover_bytes)
        pieces.append(AppendPiece(name_chunk(layout.length + begin), 0, begin, part, is_new=True))
        begin += part
    return pieces


def apply_append(
    layout: SegmentLayout, pieces: Sequence[AppendPiece], *, container_epoch: int, block_bytes: int
) -> tuple[SegmentLayout, Rows]:
    """Return the layout after the pieces were written, and the rows that make it so. O(pieces)."""
    rows: Rows = {}
    last, length = layout.last, layout.length
    first_chunk, count = layout.first_chunk, layout.chunk_count
    for piece in pieces:
        if piece.is_new:
            if last is not None:  # it may have grown, and is followed by a new one
                put_chunk_row(rows, last, piece.chunk)
            last = Chunk(piece.chunk, container_epoch, piece.length, block_bytes, piece.checksums)
            first_chunk = first_chunk or piece.chunk
            count += 1
            groups_before = 0
        else:
            assert last is not None
            groups_before = full_group_count(last.length, last.block_bytes)
            last = replace(last, length=last.length + piece.length, checksums=piece.checksums)
        put_checksum_rows(rows, piece.chunk, groups_before, piece.full_groups)
        length += piece.length
    assert last is not None
    put_chunk_row(rows, last, "")
    after = replace(
        layout,
        owner_epoch=container_epoch,
        length=length,
        chunk_count=count,
        first_chunk=first_chunk,
        last=last,
    )
    after.put_segment_row(rows)
    return after, rows


def put_checksum_rows(rows: Rows, chunk: str, first_group: int, groups: Sequence[array[int]]) -> None:
    """Add the rows of checksum groups that became full."""
    for number, checksums in enumerate(groups, first_group):
        rows[checksum_key(chunk, number)] = encode_checksum_row(checksums)


def slice_buffers(buffers: Sequence[memoryview], begin: int, length: int) -> list[memoryview]:
    """Return views of ``length`` bytes from ``begin`` of the joined buffers, without copying."""
    views = []
    for buffer in buffers:
        if length <= 0:
            break
        if begin >= len(buffer):
            begin -= len(buffer)
            continue
        view = buffer[begin : begin + length]
        views.append(view)
        length -= len(view)
        begin = 0
    assert length == 0
    return views
