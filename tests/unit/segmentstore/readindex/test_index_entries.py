from __future__ import annotations

import random
from itertools import islice

from hypothesis import given
from hypothesis import strategies as st

from headrace.segmentstore.readindex.index_entries import IndexEntries

operations = st.lists(st.tuples(st.booleans(), st.integers(0, 60)), max_size=120)


@given(operations)
def test_it_behaves_like_a_sorted_dict(steps):
    entries, model = IndexEntries(), {}
    for add, offset in steps:
        if offset in model:
            if not add:
                assert entries.remove(offset) == model.pop(offset)
        elif add:
            entries.insert(offset, offset + 1000)
            model[offset] = offset + 1000
        entries.check()
        assert entries.count == len(model)
        assert list(entries) == sorted(model.items())
        for probe in (0, offset, offset + 1, 61):
            below = [key for key in model if key <= probe]
            floor = max(below) if below else -1
            assert entries.floor(probe) == (floor, model.get(floor, -1))
            expected = [item for item in sorted(model.items()) if item[0] >= floor]
            assert list(entries.from_floor(probe)) == expected


def test_ten_thousand_entries_survive_appends_at_the_end_and_removals_at_the_front():
    entries = IndexEntries()
    for number in range(10_000):
        entries.push(number * 10, number)
    entries.check()
    for number in range(9_000):
        assert entries.remove(number * 10) == number
        assert entries.count == 10_000 - number - 1
        if not number % 100:
            entries.check()
    entries.check()
    assert list(islice(entries, 2)) == [(90_000, 9_000), (90_010, 9_001)]
    assert entries.floor(89_999) == (-1, -1)


def test_entries_inserted_in_random_order_are_in_order():
    entries = IndexEntries()
    offsets = list(range(5_000))
    random.Random(7).shuffle(offsets)
    for offset in offsets:
        entries.insert(offset, offset)
    entries.check()
    assert [offset for offset, _ in entries] == list(range(5_000))
