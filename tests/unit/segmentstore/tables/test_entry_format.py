from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import DataCorruptionError
from headrace.limits import TABLE_KEY_BYTES_MAX, TABLE_VALUE_BYTES_MAX
from headrace.model.tables import TableEntry
from headrace.segmentstore.tables.entry_format import (
    ENTRY_HEADER_BYTES,
    REMOVAL,
    decode_entries,
    decode_value,
    encode_entries,
    encode_removals,
    entry_bytes,
)

GOLDEN = Path(__file__).parents[3] / "golden" / "table_entry" / "v1" / "log.bin"

keys = st.binary(min_size=1, max_size=40)
values = st.binary(max_size=60)


def golden_log() -> bytes:
    """Put k1=v1 and k2 (empty), remove k2, then the copy of k1 that compaction makes."""
    return (
        encode_entries([TableEntry(b"k1", b"v1"), TableEntry(b"k2", b"")])[0]
        + encode_removals([b"k2"])
        + encode_entries([TableEntry(b"k1", b"v1", 0)], copies=True)[0]
    )


def test_the_bytes_are_those_pinned_in_the_golden_file():
    assert golden_log() == GOLDEN.read_bytes()


def test_the_golden_file_is_read_as_its_description_says():
    entries, consumed = decode_entries(GOLDEN.read_bytes(), 0, "t")
    assert consumed == 80
    assert entries == [
        (0, 21, b"k1", 2, 0, 19),
        (21, 40, b"k2", 0, 21, 40),
        (40, 59, b"k2", REMOVAL, 40, 59),
        (59, 80, b"k1", 2, 0, 78),
    ]


@given(st.lists(st.tuples(keys, values), max_size=20), st.integers(0, 1 << 50))
def test_entries_come_back_as_they_were_written(pairs, offset):
    data, starts = encode_entries([TableEntry(key, value) for key, value in pairs])
    entries, consumed = decode_entries(data, offset, "t")
    assert consumed == len(data)
    assert [(entry[2], data[entry[5] : entry[5] + entry[3]]) for entry in entries] == pairs
    assert [entry[0] for entry in entries] == [offset + start for start in starts]
    assert [entry[4] for entry in entries] == [entry[0] for entry in entries]
    assert sum(entry_bytes(key, len(value)) for key, value in pairs) == len(data)


@given(st.lists(keys, max_size=20))
def test_removals_come_back_without_a_value(removed):
    data = encode_removals(removed)
    entries, consumed = decode_entries(memoryview(data), 7, "t")
    assert consumed == len(data) == sum(entry_bytes(key, REMOVAL) for key in removed)
    assert [(entry[2], entry[3]) for entry in entries] == [(key, REMOVAL) for key in removed]


@given(st.lists(st.tuples(keys, values), min_size=1, max_size=4))
def test_data_cut_at_any_byte_yield_the_whole_entries_before_the_cut(pairs):
    data, starts = encode_entries([TableEntry(key, value) for key, value in pairs])
    ends = [*starts[1:], len(data)]
    for cut in range(len(data) + 1):
        entries, consumed = decode_entries(data[:cut], 0, "t")
        whole = [end for end in ends if end <= cut]
        assert len(entries) == len(whole)
        assert consumed == (whole[-1] if whole else 0)


@pytest.mark.parametrize(
    ("at", "replacement"),
    [
        (0, b"\x00"),
        (0, b"\x02"),
        (1, b"\x00\x00\x00\x00"),
        (1, b"\xff\xff\xff\xff"),
        (1, (TABLE_KEY_BYTES_MAX + 1).to_bytes(4, "big")),
        (5, b"\xff\xff\xff\xfe"),
        (5, (TABLE_VALUE_BYTES_MAX + 1).to_bytes(4, "big")),
        (9, b"\xff\xff\xff\xff\xff\xff\xff\xff"),
        (9, (1000).to_bytes(8, "big")),  # a copy of itself
        (9, (1 << 40).to_bytes(8, "big")),  # a copy of something later
    ],
)
def test_a_header_out_of_range_is_corruption_and_says_where(at, replacement):
    data = bytearray(encode_entries([TableEntry(b"first", b""), TableEntry(b"key", b"value")])[0])
    data[22 + at : 22 + at + len(replacement)] = replacement
    with pytest.raises(DataCorruptionError) as caught:
        decode_entries(data, 978, "scope/table")
    assert caught.value.offset == 1000
    assert caught.value.path == "scope/table"


def test_no_flip_of_a_bit_makes_decoding_fail_in_another_way_than_typed():
    data = bytearray(golden_log())
    for bit in range(len(data) * 8):
        data[bit // 8] ^= 1 << bit % 8
        try:
            entries, consumed = decode_entries(data, 0, "t")
            assert 0 <= consumed <= len(data)
            assert len(entries) <= 4
        except DataCorruptionError:
            pass
        data[bit // 8] ^= 1 << bit % 8


def test_a_value_is_returned_only_from_the_entry_it_belongs_to():
    data = golden_log()
    assert decode_value(data, 0, 100, b"k1", 100, "t") == b"v1"
    assert decode_value(data, 59, 159, b"k1", 0, "t") == b"v1"
    assert decode_value(data, 21, 121, b"k2", 121, "t") == b""
    for at, offset, key, version in [
        (0, 100, b"k2", 100),  # another key
        (0, 100, b"k", 100),  # a prefix of it
        (0, 100, b"k1", 99),  # another version
        (59, 159, b"k1", 159),  # the version of a copy is that of its original
        (40, 140, b"k2", 140),  # a removal
        (1, 101, b"k1", 101),  # not where an entry begins
        (79, 179, b"k1", 179),  # less than a header is left
    ]:
        with pytest.raises(DataCorruptionError):
            decode_value(data, at, offset, key, version, "t")


def test_a_value_cut_short_is_corruption():
    data = encode_entries([TableEntry(b"key", b"value")])[0]
    for cut in range(len(data)):
        with pytest.raises(DataCorruptionError):
            decode_value(data[:cut], 0, 0, b"key", 0, "t")
    assert ENTRY_HEADER_BYTES + 8 == len(data)
