"""Which blocks of which chunks answer a read, and with which checksums: decided before any I/O.

A plan holds everything the read needs, so it sees one consistent state of the segment however long it takes.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from dataclasses import dataclass, replace

from headrace.errors import InvalidArgumentError, SegmentTruncatedError
from headrace.storage.chunks.checksum_groups import ChecksumGroups
from headrace.storage.chunks.segment_layout import Chunk, SegmentLayout
from headrace.storage.metadata.contract import RowsNotLoadedError
from headrace.storage.metadata.rows import CHECKSUM_GROUP_BLOCKS, full_group_count

Locate = Callable[[int], tuple[Chunk, int]]
"""Returns the chunk that holds a byte of the segment, and where in the segment that chunk starts."""


@dataclass(slots=True)
class ReadPiece:
    """Whole blocks ``[offset, offset + length)`` of ``chunk``; asked for are ``take`` bytes from ``skip``."""

    chunk: str
    offset: int
    length: int
    skip: int
    take: int
    block_bytes: int
    checksums: array[int]

    def first_block(self) -> ReadPiece:
        """Return as much of this as one block holds: no smaller piece can be verified."""
        length = min(self.length, self.block_bytes)
        take = min(self.take, length - self.skip)
        return replace(self, length=length, take=take, checksums=self.checksums[:1])


def plan_read(
    layout: SegmentLayout, locate: Locate, offset: int, length: int, groups: ChecksumGroups
) -> list[ReadPiece]:
    """Return the pieces that hold ``[offset, offset + length)``, in order, up to one whose rows are not in
    memory.

    Args:
        layout: the segment.
        locate: finds its chunks.
        offset: in the segment.
        length: all of it must be stored.
        groups: the checksums that are not in the layout.

    Raises:
        SegmentTruncatedError: ``offset`` lies below the start offset.
        InvalidArgumentError: the range ends beyond the stored length.
        DataCorruptionError: checksums are missing or damaged.
        RowsNotLoadedError: rows of the first piece are not in memory.
    """
    check_range(layout, offset, length)
    end = offset + length
    pieces: list[ReadPiece] = []
    while offset < end:
        try:
            chunk, start = locate(offset)
            take = min(end, start + chunk.length) - offset
            pieces.append(_plan_piece(chunk, offset - start, take, groups))
        except RowsNotLoadedError:
            if not pieces:
                raise
            break
        offset += take
    return pieces


def check_range(layout: SegmentLayout, offset: int, length: int) -> None:
    """Raises: SegmentTruncatedError, InvalidArgumentError, as :func:`plan_read`."""
    if offset < layout.start_offset:
        raise SegmentTruncatedError(layout.segment, layout.start_offset, offset)
    end = offset + length
    if length < 0 or end > layout.length:
        raise InvalidArgumentError(
            f"segment {layout.segment!r}: [{offset}, {end}) is not within the stored {layout.length} bytes"
        )


def plan_at_once(
    layout: SegmentLayout, locate: Locate, offset: int, length: int, bytes_max: int, groups: ChecksumGroups
) -> ReadPiece | None:
    """Return the blocks of one chunk that hold ``[offset, offset + length)``, up to ``bytes_max`` bytes.

    None if that is less than a block, or nothing is stored there. A piece ends where a block ends, so a
    caller that reads on from the end of a shorter piece reads no byte twice.

    Raises:
        DataCorruptionError: checksums are missing or damaged.
    """
    if not layout.start_offset <= offset < layout.length:
        return None
    chunk, start = locate(offset)
    block = chunk.block_bytes
    begin = offset - start
    first = begin // block
    last = (begin + length - 1) // block
    end = min((last + 1) * block, first * block + bytes_max // block * block, chunk.length)
    if chunk.length <= first * block + bytes_max and last >= (chunk.length - 1) // block:
        end = chunk.length  # the last block is a short one
    if end <= begin:
        return None
    return _plan_piece(chunk, begin, end - begin, groups)


def _plan_piece(chunk: Chunk, begin: int, take: int, groups: ChecksumGroups) -> ReadPiece:
    block = chunk.block_bytes
    first = begin // block
    last = (begin + take - 1) // block
    aligned = first * block
    length = min((last + 1) * block, chunk.length) - aligned
    checksums = _slice_checksums(chunk, first, last + 1, groups)
    return ReadPiece(chunk.name, aligned, length, begin - aligned, take, block, checksums)


def find_checksums(chunk: Chunk, first: int, end: int, get: Callable[[str], bytes | None]) -> array[int]:
    """Return the checksums of blocks ``[first, end)``; ``get`` reads a row.

    Raises:
        DataCorruptionError: a row is missing or damaged.
    """
    return _slice_checksums(chunk, first, end, ChecksumGroups(get))


def _slice_checksums(chunk: Chunk, first: int, end: int, groups: ChecksumGroups) -> array[int]:
    tail_group = full_group_count(chunk.length, chunk.block_bytes)
    found: array[int] = array("I")
    for group in range(first // CHECKSUM_GROUP_BLOCKS, (end - 1) // CHECKSUM_GROUP_BLOCKS + 1):
        base = group * CHECKSUM_GROUP_BLOCKS
        checksums = chunk.checksums if group == tail_group else groups.find(chunk.name, group)
        found += checksums[max(0, first - base) : end - base]
    assert len(found) == end - first
    return found
