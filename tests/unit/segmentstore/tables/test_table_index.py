import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import DataCorruptionError
from headrace.model.tables import TableEntry
from headrace.segmentstore.tables.entry_format import (
    decode_entries,
    encode_entries,
    encode_removals,
)
from headrace.segmentstore.tables.table_index import (
    REMOVED,
    TableIndex,
    location_offset,
    location_value_length,
    location_version,
    pack_location,
)


def replayed(data: bytes, offset: int = 0) -> TableIndex:
    index = TableIndex()
    entries, consumed = decode_entries(data, offset, "t")
    assert consumed == len(data)
    index.replay(entries, "t")
    index.check()
    return index


@given(st.integers(0, 1 << 62), st.integers(0, 1 << 62), st.integers(0, (1 << 20) - 1))
def test_a_location_gives_back_what_was_packed(version, moved, value_length):
    location = pack_location(version + moved, version, value_length)
    assert location_offset(location) == version + moved
    assert location_version(location) == version
    assert location_value_length(location) == value_length
    assert location > REMOVED


def test_an_entry_never_copied_packs_into_a_small_integer():
    assert pack_location(1 << 39, 1 << 39, 100).bit_length() <= 60


def test_replaying_a_log_leaves_the_newest_entry_of_each_key():
    log = encode_entries([TableEntry(b"a", b"1"), TableEntry(b"b", b"22"), TableEntry(b"a", b"333")])[0]
    log += encode_removals([b"b", b"never"])
    index = replayed(log)
    assert list(index) == [b"a"]
    assert location_version(index.find(b"a")) == 19 + 20
    assert location_value_length(index.find(b"a")) == 3
    assert index.find(b"b") == REMOVED
    assert index.live_bytes == 21


def test_a_copy_keeps_the_version_of_its_original_whether_that_is_still_there_or_not():
    original = encode_entries([TableEntry(b"k", b"value")])[0]
    copy = encode_entries([TableEntry(b"k", b"value", 0)], copies=True)[0]
    for index in (replayed(original + copy), replayed(copy, offset=len(original))):
        assert location_version(index.find(b"k")) == 0
        assert location_offset(index.find(b"k")) == len(original)
        assert index.live_bytes == len(copy)


def test_a_copy_of_another_version_than_the_newest_is_corruption():
    log = encode_entries([TableEntry(b"k", b"old"), TableEntry(b"k", b"new")])[0]
    log += encode_entries([TableEntry(b"k", b"old", 0)], copies=True)[0]
    entries, _ = decode_entries(log, 0, "t")
    with pytest.raises(DataCorruptionError) as caught:
        TableIndex().replay(entries, "t")
    assert caught.value.offset == 42


@given(
    st.lists(st.tuples(st.binary(min_size=1, max_size=2), st.booleans()), max_size=60),
    st.lists(st.tuples(st.binary(min_size=1, max_size=2), st.booleans()), max_size=60),
    st.integers(1, 7),
)
def test_order_made_step_by_step_includes_what_changed_meanwhile(before, after, step):
    index = TableIndex()
    changes = iter(after)
    model = set()

    def change(key: bytes, removed: bool) -> None:
        if removed:
            index.remove(key)
            model.discard(key)
        else:
            index.put(key, pack_location(5, 5, 1))
            model.add(key)

    for key, removed in before:
        change(key, removed)
    while not index.order_some(step):
        assert not index.is_ordered
        for key, removed in [pair for _, pair in zip(range(2), changes, strict=False)]:
            change(key, removed)
    for key, removed in changes:
        change(key, removed)
    index.check()
    assert index.is_ordered
    assert index.page(b"", 1000, inclusive=True) == sorted(model)
