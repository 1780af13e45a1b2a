"""Every bit of a small log flipped, one at a time, every file cut at every byte: detected, without effect, or
provably a torn tail.
"""

import os
import random
from itertools import pairwise

import pytest

from headrace.errors import DataCorruptionError
from headrace.runtime.entropy import SeededEntropy
from headrace.testing.clock import ManualClock
from headrace.testing.disk import SimulatedDisk
from headrace.testing.filesystem import SimulatedFilesystem
from headrace.wal.config import BLOCK_BYTES
from headrace.wal.file.owner_format import SLOT_BYTES
from headrace.wal.file.owner_record import OwnerFile
from headrace.wal.file.segment_format import (
    DATA_OFFSET,
    MARK_OFFSETS,
    FileHead,
    decode_head,
    encode_head,
    format_name,
)
from headrace.wal.record_format import RECORD_HEADER_BYTES
from tests.effort import examples, sampled, stride
from tests.unit.wal.file.log_images import LOG_ID, Image, content_of, recover_files

OUTCOMES = ("detected", "without effect", "older truncation point", "torn tail")

#: Of the bytes that mean nothing (padding) one in so many is tried.
PADDING_STEP = 97

#: Of the bits of a byte one in so many is tried, of each byte others than of those beside it.
BIT_STEP = min(8, stride(1))


def log_of_three_owners(*, closed, rested=False):
    """Four files; ``closed`` or ``rested``: a mark says that the last record is durable."""
    images = [
        Image(1, 1, 1).add_many(1, 2).mark(1, 2).close(3),
        Image(2, 2, 3, truncation=2).add(3),
        Image(3, 2, 3, truncation=2).add(4),
        Image(4, 3, 5, truncation=2).add_many(5, 6),
    ]
    if closed:
        images[-1].close(7)
    if rested:
        images[-1].mark(1, 2, durable=6)
    return {image.name: image.sized().data for image in images}


def meaningful(offset):
    """Whether a byte of a file carries information, by the tables of the formats."""
    if offset < DATA_OFFSET:
        return offset % BLOCK_BYTES < 72
    return offset % BLOCK_BYTES < RECORD_HEADER_BYTES + 25


@pytest.mark.slow
@pytest.mark.parametrize(("closed", "rested"), sampled([(True, False), (False, True), (False, False)], 2))
def test_a_flipped_bit_is_never_served(closed, rested):
    files = log_of_three_owners(closed=closed, rested=rested)
    closed = closed or rested
    _, before = recover_files(files)
    assert sorted(before) == [2, 3, 4, 5, 6]
    outcomes = dict.fromkeys(OUTCOMES, 0)
    for data in files.values():
        for offset in range(len(data)):
            if not meaningful(offset) and offset % PADDING_STEP:
                continue
            for bit in range(offset % BIT_STEP, 8, BIT_STEP):
                data[offset] ^= 1 << bit
                outcomes[judge(files, before, offset, closed=closed)] += 1
                data[offset] ^= 1 << bit
    assert outcomes["detected"] > 3000 // BIT_STEP
    assert outcomes["torn tail"] == 0 if closed else outcomes["torn tail"] > 100 // BIT_STEP


def names_place(error, files):
    return error.offset is not None and any(error.path == f"/log/{name}" for name in files)


def judge(files, before, offset, *, closed):
    try:
        _, after = recover_files(files)
    except DataCorruptionError as error:
        return "detected" if names_place(error, files) else "detected, nobody knows where"
    if after == before:
        return "without effect"
    assert all(content == content_of(sequence, epoch_of(sequence)) for sequence, content in after.items())
    if set(after) > set(before):
        assert MARK_OFFSETS[0] <= offset < DATA_OFFSET  # a truncation point was lost; nothing else was
        return "older truncation point"
    assert not closed
    assert sorted(after) == [2, 3, 4, 5]  # nothing later proves 6 durable, so it may have been in flight
    return "torn tail"


@pytest.mark.slow
@pytest.mark.parametrize("closed", [True, False])
def test_whatever_lies_in_bytes_without_meaning_has_no_effect(closed):
    """So flipping any of their bits has none: nothing ever looks at them."""
    files = log_of_three_owners(closed=closed)
    _, before = recover_files(files)
    chance = random.Random(1)
    for _ in range(examples(20)):
        for data in files.values():
            for start in range(0, len(data), BLOCK_BYTES):
                quiet = [at for at in range(start, start + BLOCK_BYTES) if not meaningful(at)]
                data[quiet[0] : quiet[-1] + 1] = chance.randbytes(quiet[-1] + 1 - quiet[0])
                assert all(after - at == 1 for at, after in pairwise(quiet))
        assert recover_files(files)[1] == before


@pytest.mark.slow
def test_a_file_cut_at_any_byte_is_noticed_even_if_all_that_vouched_for_it_is_gone():
    files = log_of_three_owners(closed=False)
    newest = max(files)
    for name, whole in list(files.items()):
        for length in range(0, len(whole), 1 if name == newest else 61):
            if not meaningful(length) and length % BIT_STEP:
                continue
            files[name] = whole[:length]
            with pytest.raises(DataCorruptionError) as noticed:
                recover_files(files)
            assert noticed.value.path == f"/log/{name}"
        files[name] = whole


@pytest.mark.slow
def test_a_cut_file_of_version_1_serves_no_wrong_byte_and_is_noticed_below_an_older_owner_s_end():
    """Its head does not know its size: of the newest epoch a shorter log is all there is to see."""
    files = log_of_three_owners(closed=True)
    for data in files.values():
        _, epoch, number, began, truncation, _ = decode_head(memoryview(data))
        head = encode_head(FileHead(LOG_ID, epoch, number, began, truncation))
        data[:BLOCK_BYTES] = head[:BLOCK_BYTES]
        assert decode_head(memoryview(data)).file_bytes == 0
    _, before = recover_files(files)
    newest = max(files)
    for name, whole in list(files.items()):
        for length in range(0, len(whole), 37):
            files[name] = whole[:length]
            try:
                _, after = recover_files(files)
            except DataCorruptionError:
                continue
            if name == newest:
                assert list(before.items())[: len(after)] == list(after.items())
            elif set(after) > set(before):
                assert length < DATA_OFFSET  # a truncation point was lost with it
            else:
                assert after == before
        files[name] = whole


class OwnerDisk:
    """An owner file after three owners, to be damaged and taken; as small as the code that looks at it."""

    def __init__(self):
        self.clock, self.entropy = ManualClock(), SeededEntropy(1)
        self.disk = SimulatedDisk(SeededEntropy(2))
        for epoch in (1, 2, 3):
            owner = OwnerFile("/log", SimulatedFilesystem(self.disk))
            self.taken = owner.take(self.clock, self.entropy)
            fs = SimulatedFilesystem(self.disk)
            fs.close(fs.open(f"/log/{format_name(epoch, epoch)}", os.O_RDWR | os.O_CREAT))
        self.whole = bytes(self.disk.find_file("/log/owner").content)

    def take(self, content):
        """Return the epoch that a new owner gets, None if it is told of damage."""
        self.disk.find_file("/log/owner").content[:] = content
        try:
            return OwnerFile("/log", SimulatedFilesystem(self.disk)).take(self.clock, self.entropy).epoch
        except DataCorruptionError as error:
            return None if names_place(error, ["owner"]) else -1


@pytest.mark.slow
def test_every_flipped_bit_of_the_owner_file_is_noticed_or_costs_nothing():
    world = OwnerDisk()
    outcomes = {4: 0, None: 0}
    for offset in range(len(world.whole)):
        for bit in range(8):
            if offset % SLOT_BYTES >= 64 and (offset % 16 or bit):
                continue  # bytes that mean nothing
            data = bytearray(world.whole)
            data[offset] ^= 1 << bit
            outcomes[world.take(data)] += 1
    # The slot in force, but for its reserved bytes and what is in nobody's checksum: there is no such byte.
    assert outcomes[None] == 64 * 8


@pytest.mark.slow
def test_an_owner_file_cut_at_any_byte_is_noticed_or_costs_nothing():
    world = OwnerDisk()
    for length in range(len(world.whole)):
        if length % SLOT_BYTES > 64 and length % stride(4):
            continue  # what is cut off are bytes that mean nothing and a slot that is gone already
        in_force = world.whole[4096:] if world.taken.epoch % 2 == 0 else world.whole[:4096]
        kept = world.whole[:length].ljust(len(world.whole), b"\0")
        expected = 4 if in_force[:64] in (kept[:64], kept[4096:4160]) else None
        assert world.take(world.whole[:length]) == expected


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
                assert judge(files, before, MARK_OFFSETS[0], closed=True) in OUTCOMES
            data[offset : offset + block] = was
