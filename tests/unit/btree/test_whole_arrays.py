"""Whole arrays of keys and one key after the other give the same results."""

from bisect import bisect_left, bisect_right

from hypothesis import given
from hypothesis import strategies as st

from headrace.btree.many import divide_many, join_entries, look_up_many, merge_many, split_entries
from headrace.btree.merge import merge_few
from headrace.btree.page_format import ABSENT_BYTES, HEADER_BYTES, POINTER
from headrace.btree.search import divide_keys

KEYS = st.lists(st.integers(0, 600), min_size=1, max_size=130, unique=True).map(sorted)
VALUES = st.sampled_from([ABSENT_BYTES, bytes(8), b"\xff" * 8, b"\x01" * 8])


def key(number):
    return number.to_bytes(2, "big") + b"\0"  # keys may end with zeros


def flat(numbers):
    return b"".join(map(key, numbers))


def leaf(numbers):
    return bytes(HEADER_BYTES) + b"".join(key(number) + number.to_bytes(8, "big") for number in numbers)


@given(KEYS, KEYS, st.data())
def test_merges(present, batch, data):
    values = b"".join(data.draw(st.lists(VALUES, min_size=len(batch), max_size=len(batch))))
    low = data.draw(st.integers(0, len(batch) - 1))
    few, many = bytearray(ABSENT_BYTES * len(batch)), bytearray(ABSENT_BYTES * len(batch))
    page = leaf(present)
    merged = merge_few(page, len(present), flat(batch), values, 3, low, len(batch), few)
    rows = join_entries(flat(batch), values, 3)
    assert merge_many(page, len(present), rows, 3, low, len(batch), many) == merged
    assert many == few
    assert few[: low * 8] == ABSENT_BYTES * low
    kept = {number: number for number in present}
    for place in range(low, len(batch)):
        value = values[place * 8 : place * 8 + 8]
        kept[batch[place]] = None if value == ABSENT_BYTES else int.from_bytes(value, "big", signed=True)
    kept = {number: kept[number] for number in sorted(kept) if kept[number] is not None}
    assert merged[HEADER_BYTES:] == b"".join(
        key(number) + value.to_bytes(8, "big", signed=True) for number, value in kept.items()
    )
    if kept:
        keys, numbers = split_entries(merged[HEADER_BYTES:], 3)
        assert keys == flat(kept)
        assert list(numbers) == list(kept.values())


@given(KEYS, st.lists(st.integers(0, 600), min_size=1, max_size=130).map(sorted), st.data())
def test_lookups(present, batch, data):
    low = data.draw(st.integers(0, len(batch) - 1))
    found = bytearray(ABSENT_BYTES * len(batch))
    look_up_many(leaf(present), len(present), flat(batch), 3, low, len(batch), found)
    for place, number in enumerate(batch):
        is_there = place >= low and number in present
        expected = number.to_bytes(8, "big") if is_there else ABSENT_BYTES
        assert found[place * 8 : place * 8 + 8] == expected


@given(KEYS, st.lists(st.integers(0, 600), min_size=1, max_size=130).map(sorted), st.data())
def test_divisions(separators, batch, data):
    separators = [0, *(number for number in separators if number)]
    low = data.draw(st.integers(0, len(batch) - 1))
    page = bytes(HEADER_BYTES) + b"".join(key(number) + bytes(POINTER.size) for number in separators)
    expected = []
    for slot in range(len(separators)):
        first = max(low, bisect_left(batch, separators[slot]))
        is_last = slot + 1 == len(separators)
        behind = len(batch) if is_last else bisect_left(batch, separators[slot + 1])
        if first < behind:
            expected.append((slot, first, behind))
    assert expected[0][0] == bisect_right(separators, batch[low]) - 1
    for divide in (divide_many, divide_keys):
        assert divide(page, len(separators), flat(batch), 3, low, len(batch)) == expected
