"""A compact index answers like a dict, in a quarter of the memory."""

import tracemalloc

from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.segmentstore.tables import compact_locations
from headrace.segmentstore.tables.compact_locations import CompactLocations
from headrace.segmentstore.tables.table_index import REMOVED, TableIndex, pack_location
from tests.effort import examples

COUNT = 20_000


def key(number):
    return f"scope/stream/{number}.#epoch.0".encode()


changes = st.lists(st.tuples(st.integers(0, 200), st.integers(-1, (1 << 128) - 1)), max_size=400)


@settings(max_examples=examples(60))
@given(changes, changes)
def test_it_answers_as_a_dict_does(first, second):
    compact, model = CompactLocations(), {}
    for part in (first, second):
        for number, location in part:
            if location < 0:
                assert compact.pop(key(number), REMOVED) == model.pop(key(number), REMOVED)
            else:
                assert compact.swap(key(number), location, REMOVED) == model.get(key(number), REMOVED)
                model[key(number)] = location
        compact.check()
        assert len(compact) == len(model)
        assert sorted(compact.values()) == sorted(model.values())
        for number in range(201):
            assert compact.get(key(number), REMOVED) == model.get(key(number), REMOVED)


def test_it_grows_bucket_by_bucket_and_empties():
    compact = CompactLocations()
    for number in range(COUNT):
        assert compact.swap(key(number), number, REMOVED) == REMOVED
    compact.check()
    assert len(compact) == COUNT
    assert [compact.get(key(number), -1) for number in range(0, COUNT, 7)] == list(range(0, COUNT, 7))
    assert compact.get(key(COUNT), -1) == -1
    for number in range(COUNT):
        assert compact.pop(key(number), -1) == number
    compact.check()
    assert list(compact.values()) == []


def test_bytes_of_others_that_look_like_a_hash_are_not_taken_for_it(monkeypatch):
    class Digest:
        def __init__(self, data, digest_size):
            self.data = data

        def digest(self):
            return self.data

    monkeypatch.setattr(compact_locations, "blake2b", Digest)
    compact = CompactLocations()
    compact.swap(
        bytes(16), 0x7777 << 64, REMOVED
    )  # 16 bytes of zeros lie in front of, and across, the next record
    compact.swap(bytes(8) + b"\1" * 8, 0, REMOVED)
    compact.swap(b"\1" * 16, 5, REMOVED)
    for wanted, location in ((bytes(16), 0x7777 << 64), (bytes(8) + b"\1" * 8, 0), (b"\1" * 16, 5)):
        assert compact.get(wanted, REMOVED) == location
    assert compact.get(b"\1" * 8 + bytes(8), REMOVED) == REMOVED
    compact.check()


def test_an_entry_takes_forty_bytes_whatever_its_key():
    used = {}
    for compact in (False, True):
        tracemalloc.start()
        index = TableIndex(compact=compact)
        for number in range(COUNT):
            index.put(key(number), pack_location(500 * number, 500 * number, 400))
        used[compact] = tracemalloc.get_traced_memory()[0] / COUNT
        tracemalloc.stop()
        index.check()
        assert 0.6 < index.memory_bytes / COUNT / used[compact] < 2
    assert used[True] < 45
    assert used[False] > 3 * used[True]


def test_a_compact_index_knows_its_live_bytes():
    index = TableIndex(compact=True)
    index.put(b"a", pack_location(0, 0, 5))
    index.put(b"long", pack_location(100, 100, 7))
    index.put(b"a", pack_location(200, 200, 1))
    assert index.remove(b"long") == pack_location(100, 100, 7)
    assert index.remove(b"never") == REMOVED
    index.check()
    only = TableIndex()
    only.put(b"a", pack_location(200, 200, 1))
    assert index.live_bytes == only.live_bytes
    assert len(index) == 1
