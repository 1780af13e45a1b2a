"""Where keys are in a page: by halves for a few keys, by ``many`` for more."""

from __future__ import annotations

from typing import Final

from headrace.btree.page_format import HEADER_BYTES, POINTER, Page, PageRef

MANY: Final = 48
"""Keys in one page from which on whole arrays are faster than one key after the other."""
_SEVERAL: Final = 6
"""The same for the keys that are divided among the children of a page."""

KeyRange = tuple[PageRef, int, int]
"""A child, and which keys of a sorted batch belong to it: from the first, up to the second number."""


def lower_slot(page: Page, key: bytes, stride: int, low: int, high: int) -> int:
    """Return the first slot within ``low..high`` whose key is not below ``key``; else ``high``."""
    key_bytes = len(key)
    while low < high:
        middle = (low + high) >> 1
        at = HEADER_BYTES + middle * stride
        if page[at : at + key_bytes] < key:
            low = middle + 1
        else:
            high = middle
    return low


def upper_slot(page: Page, key: bytes, stride: int, low: int, high: int) -> int:
    """Return the first slot within ``low..high`` whose key is above ``key``; else ``high``."""
    key_bytes = len(key)
    while low < high:
        middle = (low + high) >> 1
        at = HEADER_BYTES + middle * stride
        if key < page[at : at + key_bytes]:
            high = middle
        else:
            low = middle + 1
    return low


def divide_keys(
    page: Page, count: int, keys: bytes, key_bytes: int, low: int, high: int
) -> list[tuple[int, int, int]]:
    """Return which keys of ``low..high`` of the sorted ``keys`` belong to which child of an index page.

    Returns:
        Slot, first key, and the key behind the last one; only slots with keys, ascending.
    """
    stride = key_bytes + POINTER.size
    last_at = HEADER_BYTES + (count - 1) * stride
    if page[last_at : last_at + key_bytes] <= keys[low * key_bytes : (low + 1) * key_bytes]:
        return [(count - 1, low, high)]
    if high - low >= _SEVERAL and count >= MANY:
        from headrace.btree.many import divide_many  # loads numpy

        return divide_many(page, count, keys, key_bytes, low, high)
    parts = []
    slot, at = 1, low
    while at < high:
        slot = upper_slot(page, keys[at * key_bytes : (at + 1) * key_bytes], stride, slot, count)
        first = at
        if slot == count:
            at = high
        else:
            place = HEADER_BYTES + slot * stride
            bound = page[place : place + key_bytes]
            at += 1
            while at < high and keys[at * key_bytes : (at + 1) * key_bytes] < bound:
                at += 1
        parts.append((slot - 1, first, at))
    return parts


def read_child(page: Page, slot: int, key_bytes: int) -> PageRef:
    """Return where the child in ``slot`` of an index page is."""
    at = HEADER_BYTES + slot * (key_bytes + POINTER.size) + key_bytes
    offset, length, _ = POINTER.unpack_from(page, at)
    return PageRef(offset, length)
