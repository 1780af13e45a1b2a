"""A plan reads whole blocks and gives every byte asked for once; nothing is read to find that out."""

from array import array

import pytest
from crc32c import crc32c

from headrace.errors import DataCorruptionError, InvalidArgumentError, SegmentTruncatedError
from headrace.storage.chunks.checksum_groups import ChecksumGroups
from headrace.storage.chunks.read_plan import plan_at_once, plan_read
from headrace.storage.chunks.segment_layout import Chunk, SegmentLayout
from headrace.storage.metadata.rows import CHECKSUM_GROUP_BLOCKS, checksum_key, encode_checksum_row

BLOCK = 4
START = 3


class Stored:
    """A segment in chunks, its first bytes truncated, with the rows of its checksums."""

    def __init__(self, *lengths):
        self.content = bytes(number * 7 % 251 for number in range(sum(lengths)))
        self.chunks, self.rows = {}, {}
        self.parts = []
        at = 0
        for length in lengths:
            self.parts.append((self.make_chunk(f"c{at}", self.content[at : at + length]), at))
            at += length
        last = self.parts[-1][0]
        self.layout = SegmentLayout("s", 1, 1 << 20, at, START, False, len(lengths), "c0", 0, last)
        self.layout.check()
        self.groups = ChecksumGroups(self.rows.get)

    def make_chunk(self, name, content):
        self.chunks[name] = content
        sums = array("I", [crc32c(content[at : at + BLOCK]) for at in range(0, len(content), BLOCK)])
        full = len(content) // BLOCK // CHECKSUM_GROUP_BLOCKS
        for group in range(full):
            begin = group * CHECKSUM_GROUP_BLOCKS
            self.rows[checksum_key(name, group)] = encode_checksum_row(
                sums[begin : begin + CHECKSUM_GROUP_BLOCKS]
            )
        return Chunk(name, 1, len(content), BLOCK, sums[full * CHECKSUM_GROUP_BLOCKS :])

    def locate(self, offset):
        return next(part for part in reversed(self.parts) if part[1] <= offset)

    def carry_out(self, piece):
        """Read as the plan says, and compare with the checksums that it gives."""
        blocks = self.chunks[piece.chunk][piece.offset : piece.offset + piece.length]
        assert len(blocks) == piece.length > 0
        assert piece.offset % BLOCK == 0 <= piece.skip < BLOCK
        assert list(piece.checksums) == [
            crc32c(blocks[at : at + BLOCK]) for at in range(0, len(blocks), BLOCK)
        ]
        taken = blocks[piece.skip : piece.skip + piece.take]
        assert len(taken) == piece.take > 0
        return taken


@pytest.fixture(scope="module")
def small():
    return Stored(10, 1, 8, 5)


@pytest.fixture(scope="module")
def large():
    """One chunk with two full groups of checksums, of which the last blocks have them in its own row."""
    return Stored(2 * CHECKSUM_GROUP_BLOCKS * BLOCK + 6)


def test_every_range_is_read_whole_in_whole_blocks(small):
    end = len(small.content)
    for offset in range(START, end + 1):
        for length in range(end - offset + 1):
            pieces = plan_read(small.layout, small.locate, offset, length, small.groups)
            assert b"".join(map(small.carry_out, pieces)) == small.content[offset : offset + length]
            assert len({piece.chunk for piece in pieces}) == len(pieces)


@pytest.mark.parametrize("around", [0, CHECKSUM_GROUP_BLOCKS * BLOCK, 2 * CHECKSUM_GROUP_BLOCKS * BLOCK])
def test_checksums_come_from_every_group_that_a_range_touches(large, around):
    for offset in range(max(START, around - 6), around + 6):
        for end in (offset + 1, around + 6, len(large.content)):
            (piece,) = plan_read(large.layout, large.locate, offset, end - offset, large.groups)
            assert large.carry_out(piece) == large.content[offset:end]


def test_what_is_truncated_or_not_stored_is_refused(small):
    end = len(small.content)
    with pytest.raises(SegmentTruncatedError):
        plan_read(small.layout, small.locate, START - 1, 1, small.groups)
    for offset, length in ((START, end), (end, 1), (end + 1, 0), (START, -1)):
        with pytest.raises(InvalidArgumentError):
            plan_read(small.layout, small.locate, offset, length, small.groups)
    assert plan_read(small.layout, small.locate, end, 0, small.groups) == []


def test_missing_checksums_are_corruption(large):
    groups = ChecksumGroups({}.get)
    with pytest.raises(DataCorruptionError, match="is missing"):
        plan_read(large.layout, large.locate, START, 1, groups)
    with pytest.raises(DataCorruptionError, match="is missing"):
        plan_at_once(large.layout, large.locate, START, 1, 100, groups)


@pytest.mark.parametrize("room", [0, 1, 3, 4, 5, 8, 11, 12, 100])
def test_what_is_read_at_once_fits_the_room_and_ends_where_a_block_ends(small, room):
    for offset in range(len(small.content) + 2):
        for length in (1, 4, 5, 100):
            piece = plan_at_once(small.layout, small.locate, offset, length, room, small.groups)
            if not START <= offset < small.layout.length:
                assert piece is None
                continue
            chunk, start = small.locate(offset)
            begin = offset - start
            first = begin // BLOCK * BLOCK
            if room < min(BLOCK, chunk.length - first):
                assert piece is None, "not even the first block fits"
                continue
            data = small.carry_out(piece)
            assert data == small.content[offset : offset + len(data)]
            assert piece.length <= room
            stops = first + piece.length
            assert stops % BLOCK == 0 or stops == chunk.length
            wanted = min(begin + length, chunk.length)
            assert stops >= wanted or piece.length + BLOCK > room, "it stops early for want of room only"
            assert stops < wanted + BLOCK, "no block that nobody asked for"
