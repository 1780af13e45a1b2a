"""Every bit of a small log flipped, one at a time: detected, without effect, or provably a torn tail."""

import pytest

from headrace.errors import DataCorruptionError
from headrace.wal.config import BLOCK_BYTES
from headrace.wal.file.segment_format import DATA_OFFSET, MARK_OFFSETS
from headrace.wal.record_format import RECORD_HEADER_BYTES
from tests.unit.wal.file.log_images import Image, content_of, recover_files

#: Of the bytes that mean nothing (padding) one in so many is tried.
PADDING_STEP = 97


def log_of_three_owners(*, closed):
    images = [
        Image(1, 1, 1).add_many(1, 2).mark(1, 2).close(3),
        Image(2, 2, 3, truncation=2).add(3),
        Image(3, 2, 3, truncation=2).add(4),
        Image(4, 3, 5, truncation=2).add_many(5, 6),
    ]
    if closed:
        images[-1].close(7)
    return {image.name: bytearray(image.data[: image.position + BLOCK_BYTES]) for image in images}


def meaningful(offset):
    """Whether a byte of a file carries information, by the tables of the formats."""
    if offset < DATA_OFFSET:
        return offset % BLOCK_BYTES < 64
    return offset % BLOCK_BYTES < RECORD_HEADER_BYTES + 25


@pytest.mark.parametrize("closed", [True, False])
def test_a_flipped_bit_is_never_served(closed):
    files = log_of_three_owners(closed=closed)
    _, before = recover_files(files)
    assert sorted(before) == [2, 3, 4, 5, 6]
    outcomes = {"detected": 0, "without effect": 0, "older truncation point": 0, "torn tail": 0}
    for data in files.values():
        for offset in range(len(data)):
            if not meaningful(offset) and offset % PADDING_STEP:
                continue
            for bit in range(8):
                data[offset] ^= 1 << bit
                outcomes[judge(files, before, offset, closed=closed)] += 1
                data[offset] ^= 1 << bit
    assert outcomes["detected"] > 3000
    assert outcomes["torn tail"] == 0 if closed else outcomes["torn tail"] > 100


def judge(files, before, offset, *, closed):
    try:
        _, after = recover_files(files)
    except DataCorruptionError:
        return "detected"
    if after == before:
        return "without effect"
    assert all(content == content_of(sequence, epoch_of(sequence)) for sequence, content in after.items())
    if set(after) > set(before):
        assert MARK_OFFSETS[0] <= offset < DATA_OFFSET  # a truncation point was lost; nothing else was
        return "older truncation point"
    assert not closed
    assert sorted(after) == [2, 3, 4, 5]  # nothing later vouches for 6, so it may have been in flight
    return "torn tail"


def epoch_of(sequence):
    return 1 if sequence < 3 else 2 if sequence < 5 else 3


@pytest.mark.parametrize("block", [512, BLOCK_BYTES])
def test_a_lost_or_misplaced_block_is_never_served(block):
    files = log_of_three_owners(closed=True)
    _, before = recover_files(files)
    everything = b"".join(files.values())
    for data in files.values():
        for offset in range(0, len(data), block):
            was = data[offset : offset + block]
            for source in (
                bytes(block),
                b"\xff" * block,
                everything[-offset - block :][:block].ljust(block, b"\0"),
            ):
                data[offset : offset + block] = source
                judge(files, before, MARK_OFFSETS[0], closed=True)
            data[offset : offset + block] = was
