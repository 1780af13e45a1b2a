"""Reads of a tree: the values of given keys, and the entries of a range."""

from __future__ import annotations

import sys
from array import array
from typing import Final, NamedTuple

from headrace.btree.footer_format import TreeRoot
from headrace.btree.page_format import (
    ABSENT,
    ABSENT_BYTES,
    HEADER_BYTES,
    INDEX,
    LEAF,
    POINTER,
    VALUE_BYTES,
    Buffer,
    Fetch,
    Page,
    PageRef,
    count_keys,
    open_page,
)
from headrace.btree.search import MANY, KeyRange, divide_keys, lower_slot, read_child, upper_slot
from headrace.errors import InvalidArgumentError

FETCH_PAGES_MAX: Final = 128
"""Pages that a read asks for at once, at most: 4 MiB."""


class Entries(NamedTuple):
    """Entries in ascending order of their keys."""

    keys: bytes
    """One key behind the other."""
    values: array[int]


def lookup(root: TreeRoot, keys: Buffer) -> Fetch[array[int]]:
    """Return the value of each key in ``keys``, which may come in any order and repeat; ABSENT without one.

    Raises:
        InvalidArgumentError: the last key is not whole.
        DataCorruptionError: a page is not what its parent says.
    """
    key_bytes = root.key_bytes
    count = count_keys(keys, key_bytes)
    keys = bytes(keys)
    if root.page is None or count == 0:
        return array("q", [ABSENT]) * count
    if count == 1:
        return array("q", [(yield from _look_up_one(root, root.page, keys))])
    if count < MANY:
        each = [keys[at : at + key_bytes] for at in range(0, len(keys), key_bytes)]
        order = sorted(range(count), key=each.__getitem__)
        found = yield from _look_up_sorted(root, root.page, b"".join([each[place] for place in order]), count)
        values = array("q", bytes(VALUE_BYTES * count))
        for place, value in zip(order, _as_values(found), strict=True):
            values[place] = value
        return values
    from headrace.btree.many import place_values, sort_keys  # loads numpy

    sorted_keys, places = sort_keys(keys, key_bytes)
    return place_values((yield from _look_up_sorted(root, root.page, sorted_keys, count)), places)


def _look_up_one(root: TreeRoot, ref: PageRef, key: bytes) -> Fetch[int]:
    key_bytes = len(key)
    for _ in range(root.height - 1):
        page, count = open_page(ref, (yield (ref,))[0], INDEX, key_bytes)
        ref = read_child(page, upper_slot(page, key, key_bytes + POINTER.size, 1, count) - 1, key_bytes)
    page, count = open_page(ref, (yield (ref,))[0], LEAF, key_bytes)
    stride = key_bytes + VALUE_BYTES
    at = HEADER_BYTES + lower_slot(page, key, stride, 0, count) * stride
    if page[at : at + key_bytes] != key:
        return ABSENT
    return int.from_bytes(page[at + key_bytes : at + stride], "big", signed=True)


def _look_up_sorted(root: TreeRoot, page: PageRef, keys: bytes, count: int) -> Fetch[bytearray]:
    """Return the values of sorted keys as they are stored."""
    key_bytes = root.key_bytes
    found = bytearray(ABSENT_BYTES * count)
    waiting: list[tuple[int, list[KeyRange]]] = [(root.height - 1, [(page, 0, count)])]
    while waiting:
        level, wanted = waiting.pop()
        if len(wanted) > FETCH_PAGES_MAX:
            waiting.append((level, wanted[FETCH_PAGES_MAX:]))
            wanted = wanted[:FETCH_PAGES_MAX]
        answers = yield [ref for ref, _, _ in wanted]
        below: list[KeyRange] = []
        for (ref, low, high), data in zip(wanted, answers, strict=True):
            opened, entries = open_page(ref, data, INDEX if level else LEAF, key_bytes)
            if level == 0:
                _look_up_in_leaf(opened, entries, keys, key_bytes, low, high, found)
                continue
            for slot, first, behind in divide_keys(opened, entries, keys, key_bytes, low, high):
                below.append((read_child(opened, slot, key_bytes), first, behind))
        if below:
            waiting.append((level - 1, below))
    return found


def _look_up_in_leaf(
    page: Page, count: int, keys: bytes, key_bytes: int, low: int, high: int, found: bytearray
) -> None:
    if high - low >= MANY:
        from headrace.btree.many import look_up_many  # loads numpy

        look_up_many(page, count, keys, key_bytes, low, high, found)
        return
    stride = key_bytes + VALUE_BYTES
    slot = 0
    for place in range(low, high):
        key = keys[place * key_bytes : (place + 1) * key_bytes]
        slot = lower_slot(page, key, stride, slot, count)
        at = HEADER_BYTES + slot * stride
        if page[at : at + key_bytes] == key:
            found[place * VALUE_BYTES : (place + 1) * VALUE_BYTES] = page[at + key_bytes : at + stride]


def read_range(root: TreeRoot, first: bytes, last: bytes, count_max: int) -> Fetch[Entries]:
    """Return up to ``count_max`` entries with keys from ``first`` to ``last``, both included, ascending.

    A caller goes on with the key behind the last one, from the root that is current by then.

    Raises:
        InvalidArgumentError: the bounds are not keys of this tree, or no entry is wanted.
        DataCorruptionError: a page is not what its parent says.
    """
    key_bytes = root.key_bytes
    if len(first) != key_bytes or len(last) != key_bytes or count_max < 1:
        raise InvalidArgumentError(f"a range is two keys of {key_bytes} bytes and at least one entry")
    if root.page is None or last < first:
        return Entries(b"", array("q"))
    stride = key_bytes + VALUE_BYTES
    entries_per_page = max(1, root.entries // root.pages)
    pieces: list[Page] = []
    missing = count_max
    waiting = [(root.height - 1, [root.page])]
    while waiting and missing:
        level, wanted = waiting.pop()
        at_once = 1 if level else min(missing // entries_per_page + 1, FETCH_PAGES_MAX)
        if len(wanted) > at_once:
            waiting.append((level, wanted[at_once:]))
            wanted = wanted[:at_once]
        for ref, data in zip(wanted, (yield wanted), strict=True):
            page, count = open_page(ref, data, INDEX if level else LEAF, key_bytes)
            if level:
                low = upper_slot(page, first, key_bytes + POINTER.size, 1, count) - 1
                high = upper_slot(page, last, key_bytes + POINTER.size, low + 1, count)
                waiting.append((level - 1, [read_child(page, slot, key_bytes) for slot in range(low, high)]))
                continue
            low = lower_slot(page, first, stride, 0, count)
            high = min(upper_slot(page, last, stride, low, count), low + missing)
            pieces.append(page[HEADER_BYTES + low * stride : HEADER_BYTES + high * stride])
            missing -= high - low
            if not missing:
                break
    return _split_entries(b"".join(pieces), key_bytes)


def _split_entries(body: bytes, key_bytes: int) -> Entries:
    stride = key_bytes + VALUE_BYTES
    if len(body) >= MANY * stride:
        from headrace.btree.many import split_entries  # loads numpy

        return Entries(*split_entries(body, key_bytes))
    starts = range(0, len(body), stride)
    keys = b"".join([body[at : at + key_bytes] for at in starts])
    return Entries(keys, _as_values(b"".join([body[at + key_bytes : at + stride] for at in starts])))


def _as_values(data: Buffer) -> array[int]:
    values = array("q", bytes(data))
    if sys.byteorder == "little":
        values.byteswap()
    return values
