from hypothesis import given
from hypothesis import strategies as st

from headrace.segmentstore.tables.locations import REMOVED, location_bytes, pack_location
from headrace.segmentstore.tables.unindexed import UnindexedEntries

keys = st.integers(0, 9).map(lambda n: b"%d" % n)
changes = st.tuples(st.sampled_from(["put", "remove", "remember", "look"]), keys, st.integers(1, 5000))


def apply(entries, model, change):
    kind, key, size = change
    if kind == "put":
        entries.put(key, pack_location(size, size))
        model[key] = pack_location(size, size)
    elif kind == "remember":
        entries.remove(key, remember=True)
        model[key] = REMOVED
    elif kind == "remove":
        entries.remove(key, remember=False)
        model.pop(key, None)
    else:
        assert_ranges(entries, model, key)


def assert_ranges(entries, model, first):
    for count in (1, 3, 100):
        found, end = entries.range(first, b"8", count)
        wanted = sorted(key for key in model if first <= key <= end)
        assert [key for key in dict.fromkeys(found) if key in model] == wanted
        assert end == b"8" or len(found) <= count


@given(st.lists(changes, max_size=60), st.lists(changes, max_size=20))
def test_entries_are_those_of_a_dict_in_order(first, second):
    entries, model = UnindexedEntries(), {}
    for change in first:
        apply(entries, model, change)
    newer, newer_model = UnindexedEntries(), {}
    for change in second:
        apply(newer, newer_model, change)
    entries.update(newer)
    model |= newer_model
    entries.check()
    assert entries.locations == model
    assert entries.live_count == sum(location != REMOVED for location in model.values())
    assert entries.live_bytes == sum(location_bytes(each) for each in model.values() if each != REMOVED)
    assert_ranges(entries, model, b"0")
