import pytest

from headrace.errors import DataCorruptionError
from headrace.model.tables import TableEntry
from headrace.segmentstore.tables.entry_format import decode_entries, encode_entries, encode_removals
from headrace.segmentstore.tables.locations import REMOVED, is_copy, location_offset
from headrace.segmentstore.tables.log_replay import replay_entries
from headrace.segmentstore.tables.tree_keys import TreeKeys
from headrace.segmentstore.tables.unindexed import UnindexedEntries

KEYS = TreeKeys(0, 5)


def replayed(data: bytes, offset: int = 0, *, remember: bool = False, keys=KEYS) -> UnindexedEntries:
    unindexed = UnindexedEntries()
    entries, consumed = decode_entries(data, offset, "t")
    assert consumed == len(data)
    replay_entries(entries, unindexed, keys, "t", remember=remember)
    unindexed.check()
    return unindexed


def test_replaying_a_log_leaves_the_newest_entry_of_each_key():
    log = encode_entries([TableEntry(b"a", b"1"), TableEntry(b"b", b"22"), TableEntry(b"a", b"333")])[0]
    log += encode_removals([b"b", b"never"])
    found = replayed(log)
    assert list(found.locations) == [KEYS.of(b"a")]
    assert location_offset(found.locations[KEYS.of(b"a")]) == 19 + 20
    assert found.live_bytes == 21
    found = replayed(log, remember=True)
    assert found.locations[KEYS.of(b"b")] == found.locations[KEYS.of(b"never")] == REMOVED
    assert found.live_count == 1


def test_a_copy_is_known_as_one_whether_its_original_is_still_there_or_not():
    original = encode_entries([TableEntry(b"k", b"value")])[0]
    copy = encode_entries([TableEntry(b"k", b"value", 0)], copies=True)[0]
    for found in (replayed(original + copy), replayed(copy, offset=len(original))):
        location = found.locations[KEYS.of(b"k")]
        assert is_copy(location)
        assert location_offset(location) == len(original)
        assert found.live_bytes == len(copy)


def test_a_copy_of_another_version_than_the_newest_is_corruption():
    log = encode_entries([TableEntry(b"k", b"old"), TableEntry(b"k", b"new")])[0]
    log += encode_entries([TableEntry(b"k", b"old", 0)], copies=True)[0]
    with pytest.raises(DataCorruptionError) as caught:
        replayed(log)
    assert caught.value.offset == 42


def test_a_key_of_another_length_than_the_table_has_is_corruption():
    log = encode_entries([TableEntry(b"key", b"")])[0] + encode_removals([b"keys"])
    with pytest.raises(DataCorruptionError) as caught:
        replayed(log, keys=TreeKeys(3, 0))
    assert caught.value.offset == 20
