"""Where an entry lies in the log of its table, and how large it is: one integer, as the index stores it.

====  ====  ======================================================================================
bit   bits  field
====  ====  ======================================================================================
63    1     0
16    47    offset of the entry in the segment
15    1     1: a copy made by compaction, whose header has its version; else its offset is its version
0     15    size class of the whole entry: exponent *e* (5 bits), mantissa *m* (10 bits)
====  ====  ======================================================================================

A class stands for *m* bytes if *e* is 0, else for (1024 + *m*) << (*e* - 1): the size, rounded up by less
than a thousandth, and exact below 2 KiB.

Source: docs/formats/table-index.md.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from typing import Final

from headrace.limits import INT64_MIN, KIB

REMOVED: Final = -1
"""In place of a location: the key is known to be absent."""

UNKNOWN: Final = -2
"""In place of a location: only the index knows, and not without reading."""

ABSENT: Final = INT64_MIN
"""In an index: no location."""

OFFSET_MAX: Final = (1 << 47) - 1

_OFFSET_SHIFT: Final = 16
_COPY: Final = 1 << 15
_CLASS_MASK: Final = _COPY - 1
_MANTISSA_BITS: Final = 10
_EXACT_MAX: Final = KIB
"""Sizes below it are their own class."""


def pack_location(offset: int, size_bytes: int, *, copy: bool = False) -> int:
    """Pack place and size of an entry."""
    assert 0 <= offset <= OFFSET_MAX
    packed = offset << _OFFSET_SHIFT | size_class(size_bytes)
    return packed | _COPY if copy else packed


def location_offset(location: int) -> int:
    return location >> _OFFSET_SHIFT


def is_copy(location: int) -> bool:
    """Whether the version of the entry is another one than its offset."""
    return location & _COPY != 0


def location_bytes(location: int) -> int:
    """Return the size of the entry, rounded up; of no entry: 0."""
    number = location & _CLASS_MASK
    if number < _EXACT_MAX:
        return number
    return (_EXACT_MAX + (number & _EXACT_MAX - 1)) << ((number >> _MANTISSA_BITS) - 1)


def size_class(size_bytes: int) -> int:
    if size_bytes < _EXACT_MAX:
        return size_bytes
    shift = size_bytes.bit_length() - _MANTISSA_BITS - 1
    mantissa = -(-size_bytes >> shift)  # rounded up
    if mantissa == 2 * _EXACT_MAX:
        shift, mantissa = shift + 1, _EXACT_MAX
    return (shift + 1) << _MANTISSA_BITS | mantissa - _EXACT_MAX


def sum_bytes(locations: Iterable[int] | array[int]) -> int:
    """Return the bytes of all entries; REMOVED and ABSENT have none."""
    return sum(location_bytes(location) for location in locations if location >= 0)
