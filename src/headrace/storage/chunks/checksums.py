"""Checksums of a chunk's blocks: made while writing, checked by every read.

A chunk is covered by the crc32c of each of its blocks; the block at the end may be short and its checksum
then covers what there is, so that an append continues it. Reads fetch whole blocks.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Final

from crc32c import crc32c

from headrace.errors import ChecksumMismatchError
from headrace.limits import MIB
from headrace.runtime.checksums import release_mode
from headrace.storage.metadata.rows import CHECKSUM_GROUP_BLOCKS

Buffer = bytes | bytearray | memoryview

_HOLD_BYTES_MAX: Final = 1 * MIB


def extend_checksums(
    tail: array[int], length: int, block_bytes: int, buffers: Sequence[Buffer]
) -> tuple[list[array[int]], array[int]]:
    """Continue the checksums of a chunk of ``length`` bytes over the bytes that follow.

    Called in the thread that writes them. See ``runtime.checksums`` for the effect on the loop.

    Returns:
        The groups that became full, in order, and the checksums after the last full group.
    """
    checksums = array("I", tail)
    release = release_mode(sum(map(len, buffers)), _HOLD_BYTES_MAX)
    filled = length % block_bytes
    for buffer in buffers:
        view = memoryview(buffer)
        size = len(view)
        at = 0
        if filled:
            at = min(size, block_bytes - filled)
            checksums[-1] = crc32c(view[:at], checksums[-1], release)
        for begin in range(at, size, block_bytes):
            checksums.append(crc32c(view[begin : begin + block_bytes], 0, release))
        filled = (filled + size) % block_bytes
    groups = []
    # A group is full when the last byte of its last block is there.
    while len(checksums) > CHECKSUM_GROUP_BLOCKS or (len(checksums) == CHECKSUM_GROUP_BLOCKS and not filled):
        groups.append(checksums[:CHECKSUM_GROUP_BLOCKS])
        checksums = checksums[CHECKSUM_GROUP_BLOCKS:]
    return groups, checksums


def verify_blocks(data: memoryview, block_bytes: int, checksums: array[int], chunk: str, offset: int) -> None:
    """Check ``data``, which begins with a block at ``offset`` of ``chunk`` and ends with a block.

    Raises:
        ChecksumMismatchError: with the offset of the first bad block.
    """
    good = count_good(data, block_bytes, checksums)
    if good < len(data):
        raise ChecksumMismatchError("a block fails its checksum", path=chunk, offset=offset + good)


def count_good(data: memoryview, block_bytes: int, checksums: array[int]) -> int:
    """Return the size of the blocks at the beginning of ``data`` that are right."""
    assert len(checksums) == -(-len(data) // block_bytes)
    at = 0
    for expected in checksums:
        if crc32c(data[at : at + block_bytes]) != expected:
            return at
        at += block_bytes
    return len(data)
