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
    decode_entry,
    decode_version,
    encode_entries,
    encode_removals,
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
    assert sum(ENTRY_HEADER_BYTES + len(key) + len(value) for key, value in pairs) == len(data)


@given(st.lists(keys, max_size=20))
def test_removals_come_back_without_a_value(removed):
    data = encode_removals(removed)
    entries, consumed = decode_entries(memoryview(data), 7, "t")
    assert consumed == len(data) == sum(ENTRY_HEADER_BYTES + len(key) for key in removed)
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


def test_an_entry_is_returned_only_from_where_a_put_begins():
    data = golden_log()
    assert decode_entry(data, 0, 100, "t") == (b"k1", b"v1", 100)
    assert decode_entry(data, 59, 159, "t") == (b"k1", b"v1", 0)
    assert decode_entry(data, 21, 121, "t") == (b"k2", b"", 121)
    assert decode_entry(data, 0, 100, "t", with_value=False) == (b"k1", b"", 100)
    assert decode_version(data[59:76], 159, "t") == 0
    for at in (40, 1):  # a removal; not where an entry begins
        with pytest.raises(DataCorruptionError):
            decode_entry(data, at, 100 + at, "t")
    for at in (0, 40):  # not a copy
        with pytest.raises(DataCorruptionError):
            decode_version(data[at : at + 17], 100 + at, "t")


def test_an_entry_cut_short_is_not_there():
    data = encode_entries([TableEntry(b"key", b"value")])[0]
    for cut in range(len(data)):
        assert decode_entry(data[:cut], 0, 0, "t") is None
    assert ENTRY_HEADER_BYTES + 8 == len(data)
    assert decode_entry(data[:20], 0, 0, "t", with_value=False) == (b"key", b"", 0)
    assert decode_entry(data[:19], 0, 0, "t", with_value=False) is None
