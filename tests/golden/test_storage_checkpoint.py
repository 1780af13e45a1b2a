"""The bytes and names of storage checkpoints are pinned, and no damage to one goes unnoticed."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import DataCorruptionError
from headrace.storage.checkpoints import object_names as names
from headrace.storage.checkpoints.manifest import Manifest, PartFact, decode_manifest, encode_manifest
from headrace.storage.checkpoints.parts import PartBuilder, decode_part
from headrace.storage.chunks.chunk_names import parse_chunk_name

HERE = Path(__file__).parent / "storage_checkpoint" / "v1"
MANIFEST = Manifest(
    2,
    4,
    names.CheckpointId(3, 7),
    1_700_000_000_000,
    4711,
    12,
    3,
    "0123abcd",
    [PartFact(28, 0x689BD06B)],
    "a-system",
    rebuilt=True,
)
RECORDS = [b"one", b"", b"three"]


def golden(name):
    return bytes.fromhex((HERE / f"{name}.hex").read_text())


def test_a_manifest_has_the_bytes_it_always_had():
    assert encode_manifest(MANIFEST) == golden("manifest")
    assert decode_manifest(golden("manifest")) == MANIFEST


def test_a_part_has_the_bytes_it_always_had():
    builder = PartBuilder(1000)
    for record in RECORDS:
        assert builder.add(record) is None
    assert b"".join(builder.take()) == golden("part")
    assert [bytes(record) for record in decode_part(memoryview(golden("part")))] == RECORDS


def test_names_are_what_they_always_were():
    checkpoint = names.CheckpointId(3, 7)
    stem = "_system/checkpoints/2/00000000000000000003-0000000007"
    assert names.manifest_name(2, checkpoint) == f"{stem}.manifest"
    assert names.part_name(2, checkpoint, 11) == f"{stem}.00011"
    assert names.parse_object_name(f"{stem}.manifest") == (2, checkpoint, None)
    assert names.parse_object_name(f"{stem}.00011") == (2, checkpoint, 11)
    for name in (f"{stem}.manifest", f"{stem}.00011"):
        assert parse_chunk_name(name) is None, "it would be taken for an orphan"


@pytest.mark.parametrize("at", range(len(golden("manifest"))))
def test_every_flipped_bit_of_a_manifest_is_noticed(at):
    damaged = bytearray(golden("manifest"))
    damaged[at] ^= 1 << at % 8
    with pytest.raises(DataCorruptionError):
        decode_manifest(bytes(damaged))


@pytest.mark.parametrize("length", range(len(golden("manifest"))))
def test_a_short_manifest_is_noticed(length):
    with pytest.raises(DataCorruptionError):
        decode_manifest(golden("manifest")[:length])


@pytest.mark.parametrize("length", [0, 7, 9, 11, 14, 20, 22, 26])
def test_a_part_that_ends_within_a_record_is_noticed(length):
    with pytest.raises(DataCorruptionError):
        list(decode_part(memoryview(golden("part"))[:length]))


@given(st.lists(st.binary(max_size=40), max_size=30), st.integers(9, 100))
def test_records_come_back_from_parts_of_any_size(records, bytes_max):
    builder = PartBuilder(bytes_max)
    parts = [part for record in records if (part := builder.add(record)) is not None]
    last = builder.take()
    parts += [] if last is None else [last]
    joined = [b"".join(part) for part in parts]
    assert all(len(part) <= max(bytes_max, 8 + 4 + 40) for part in joined)
    assert [bytes(each) for part in joined for each in decode_part(memoryview(part))] == records
    assert builder.records == len(records)
