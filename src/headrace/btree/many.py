"""The work on whole arrays of keys, without an object per key.

Loading this module loads numpy: its users import it when they need it.
"""

from __future__ import annotations

from array import array
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from headrace.btree.page_format import ABSENT, HEADER_BYTES, LOWEST_AT, POINTER, VALUE_BYTES, Buffer, Page

_VALUE: Final = np.dtype(">i8")
_LOWEST: Final = np.dtype(">u8")

Numbers = NDArray[Any]


def _keys_of(page: Page, count: int, key_bytes: int, stride: int) -> Numbers:
    """Return the keys of a page. Strings of equal width compare as unsigned bytes, zeros included."""
    return np.ndarray((count,), f"S{key_bytes}", page, HEADER_BYTES, (stride,))


def is_ascending(keys: bytes, key_bytes: int) -> bool:
    """Say whether each key is above the one before it."""
    array_of_keys = np.frombuffer(keys, f"S{key_bytes}")
    return bool((array_of_keys[1:] > array_of_keys[:-1]).all())


def sort_keys(keys: bytes, key_bytes: int) -> tuple[bytes, Numbers]:
    """Return the keys in ascending order, and the place of each of them in ``keys``."""
    array_of_keys = np.frombuffer(keys, f"S{key_bytes}")
    order = array_of_keys.argsort(kind="stable")
    return array_of_keys[order].tobytes(), order


def place_values(found: bytearray, order: Numbers) -> array[int]:
    """Return the values of ``found``, each at its place in ``order``."""
    values = np.empty(len(order), np.int64)
    values[order] = np.frombuffer(found, _VALUE)
    return array("q", values.tobytes())


def divide_many(
    page: Page, count: int, keys: bytes, key_bytes: int, low: int, high: int
) -> list[tuple[int, int, int]]:
    """Do what ``divide_keys`` does."""
    batch = np.frombuffer(keys, f"S{key_bytes}", high - low, low * key_bytes)
    separators = _keys_of(page, count, key_bytes, key_bytes + POINTER.size)[1:]
    if high - low < count:
        return _join_slots(np.searchsorted(separators, batch, "right").tolist(), low)
    ends = np.empty(count, np.int64)
    ends[:-1] = np.searchsorted(batch, separators)
    ends[-1] = high - low
    slots = np.flatnonzero(np.diff(ends, prepend=0))
    bounds = ends[slots] + low
    starts = [low, *bounds[:-1].tolist()]
    return list(zip(slots.tolist(), starts, bounds.tolist(), strict=True))


def _join_slots(slots: list[int], low: int) -> list[tuple[int, int, int]]:
    """Return slot, first key, and the key behind the last one of each run of equal slots."""
    parts = []
    slot, first = slots[0], 0
    for place, other in enumerate(slots):
        if other != slot:
            parts.append((slot, low + first, low + place))
            slot, first = other, place
    parts.append((slot, low + first, low + len(slots)))
    return parts


def look_up_many(
    page: Page, count: int, keys: bytes, key_bytes: int, low: int, high: int, found: bytearray
) -> None:
    """Write the values that keys ``low..high`` of the sorted ``keys`` have in a leaf into ``found``."""
    stride = key_bytes + VALUE_BYTES
    present = _keys_of(page, count, key_bytes, stride)
    batch = np.frombuffer(keys, f"S{key_bytes}", high - low, low * key_bytes)
    slots = np.searchsorted(present, batch)
    np.minimum(slots, count - 1, out=slots)
    values = np.ndarray((count,), _VALUE, page, HEADER_BYTES + key_bytes, (stride,))
    hits = present[slots] == batch
    target = np.frombuffer(found, _VALUE, high - low, low * VALUE_BYTES)
    target[hits] = values[slots[hits]]


def split_entries(body: Buffer, key_bytes: int) -> tuple[bytes, array[int]]:
    """Return the keys and the values of entries of leaves."""
    stride = key_bytes + VALUE_BYTES
    count = len(body) // stride
    keys = np.ndarray((count, key_bytes), np.uint8, body, 0, (stride, 1))
    values = np.ndarray((count,), _VALUE, body, key_bytes, (stride,))
    return keys.tobytes(), array("q", values.astype(np.int64).tobytes())


def join_entries(keys: bytes, values: bytes, key_bytes: int) -> Numbers:
    """Return entries of leaves, one row each, from their keys and the bytes of their values."""
    count = len(keys) // key_bytes
    rows = np.empty((count, key_bytes + VALUE_BYTES), np.uint8)
    rows[:, :key_bytes] = np.frombuffer(keys, np.uint8).reshape(count, key_bytes)
    rows[:, key_bytes:] = np.frombuffer(values, np.uint8).reshape(count, VALUE_BYTES)
    return rows


def merge_many(
    page: Page, count: int, rows: Numbers, key_bytes: int, low: int, high: int, previous: bytearray
) -> bytearray:
    """Do what ``merge_few`` does; keys and values are ``rows`` of ``join_entries``."""
    stride = key_bytes + VALUE_BYTES
    whole = np.dtype((np.void, stride))
    changes = rows[low:high]
    batch = changes[:, :key_bytes].copy().view(f"S{key_bytes}")[:, 0]
    entries = changes.view(whole)[:, 0]
    values = np.ndarray((high - low,), _VALUE, changes, key_bytes, (stride,))
    stays = values != ABSENT
    present = _keys_of(page, count, key_bytes, stride)
    if count == 0 or present[-1] < batch[0]:
        appended = bytearray(page)
        appended += (entries if stays.all() else entries[stays]).data
        return appended
    slots = np.searchsorted(present, batch)
    nearest = np.minimum(slots, count - 1)
    hits = present[nearest] == batch
    hit_slots = slots[hits]
    old_values = np.ndarray((count,), _VALUE, page, HEADER_BYTES + key_bytes, (stride,))
    np.frombuffer(previous, _VALUE, high - low, low * VALUE_BYTES)[hits] = old_values[hit_slots]
    kept = np.ones(count, bool)
    kept[hit_slots] = False
    old = np.ndarray((count,), whole, page, HEADER_BYTES, (stride,))[kept]
    gone = np.zeros(count + 1, np.int64)
    np.cumsum(~kept, out=gone[1:])
    new = entries[stays]
    places = slots[stays]
    places = places - gone[places] + np.arange(len(new))
    merged = bytearray(HEADER_BYTES + (len(old) + len(new)) * stride)
    target = np.ndarray((len(old) + len(new),), whole, merged, HEADER_BYTES)
    is_old = np.ones(len(target), bool)
    is_old[places] = False
    target[places] = new
    target[is_old] = old
    return merged


def read_lowest(page: Buffer, count: int, key_bytes: int) -> Numbers:
    """Return the lowest offset in the subtree of each child of an index page, in an array of its own."""
    stride = key_bytes + POINTER.size
    at = HEADER_BYTES + key_bytes + LOWEST_AT
    return np.ndarray((count,), _LOWEST, page, at, (stride,)).astype(np.int64)


def find_below(offsets: Numbers, bound: int) -> list[tuple[int, int]]:
    """Return each offset below ``bound``, with its place."""
    places = np.flatnonzero(offsets < bound)
    return list(zip(offsets[places].tolist(), places.tolist(), strict=True))
