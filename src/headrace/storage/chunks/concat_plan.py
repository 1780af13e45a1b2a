"""Joining a sealed segment to the end of another: by copying if it is small, else by linking its chunks.

Linking costs three rows whatever the size. But a transaction of a kilobyte would leave a chunk of a kilobyte
in its stream for ever; so a small source is copied behind the target's last chunk, and its chunks are
dropped.
"""

from __future__ import annotations

from dataclasses import replace

from headrace.errors import (
    InvalidArgumentError,
    OffsetMismatchError,
    SegmentNotSealedError,
    SegmentSealedError,
)
from headrace.storage.chunks.segment_layout import Rows, SegmentLayout, put_chunk_row
from headrace.storage.metadata.rows import segment_key


def check_concat(target: SegmentLayout, offset: int, source: SegmentLayout) -> None:
    """Refuse what must not be joined.

    Raises:
        SegmentSealedError: the target is sealed.
        SegmentNotSealedError: the source is not.
        OffsetMismatchError: the target does not end at ``offset``.
        InvalidArgumentError: the source was truncated, or is the target.
    """
    if target.segment == source.segment:
        raise InvalidArgumentError(f"segment {target.segment!r} cannot be joined to itself")
    if target.sealed:
        raise SegmentSealedError(target.segment)
    if not source.sealed:
        raise SegmentNotSealedError(source.segment)
    if source.start_offset:
        raise InvalidArgumentError(f"segment {source.segment!r} was truncated; it cannot be joined")
    if target.length != offset:
        raise OffsetMismatchError(target.segment, offset, target.length)


def plan_link(
    target: SegmentLayout, source: SegmentLayout, *, container_epoch: int
) -> tuple[SegmentLayout, Rows]:
    """Make the source's chunks the target's last ones and forget the source. An empty source adds nothing."""
    rows: Rows = {segment_key(source.segment): None}
    after = replace(target, owner_epoch=container_epoch)
    if source.last is not None:
        after.length += source.length
        after.chunk_count += source.chunk_count
        after.first_chunk = target.first_chunk or source.first_chunk
        after.last = source.last
        if target.last is not None:
            put_chunk_row(rows, target.last, source.first_chunk)
    after.put_segment_row(rows)
    return after, rows
