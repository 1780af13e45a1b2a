"""The key space [0, 1): where a routing key falls, and how ranges divide it. Pure.

A controller speaks of ranges that contain their lower bound and exclude their upper one. A writer sends an
event to the segment with the smallest upper bound that is not below the event's position, so that a
position exactly on a bound belongs to the range below it; all clients of the protocol agree on this. Bounds
are compared bit by bit.

Source: protocol, "Key ranges" and "Routing-key hash"; ``docs/formats/key-space.md``; pinned by
``tests/golden/key_space``.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from headrace.model.hashing import SEED_ROUTING_KEY, SEED_TABLE_KEY, murmur3

_FRACTION_BITS: Final = 52
_FRACTION_SCALE: Final = 1.0 / (1 << _FRACTION_BITS)


@dataclass(frozen=True, slots=True, order=True)
class KeyRange:
    """``[low, high)`` within [0, 1)."""

    low: float
    high: float

    def overlaps(self, other: KeyRange) -> bool:
        return self.low < other.high and self.high > other.low

    def contains(self, position: float) -> bool:
        return self.low <= position < self.high

    def covers(self, other: KeyRange) -> bool:
        return self.low <= other.low and other.high <= self.high

    def receives(self, position: float) -> bool:
        """Tell whether writers send events at ``position`` to the segment that has this range."""
        return self.low < position <= self.high or position == self.low == 0.0


FULL_RANGE: Final = KeyRange(0.0, 1.0)


def hash_to_position(word: int) -> float:
    """Turn the first 64-bit word of a hash into a position in [0, 1): its top 52 bits as a fraction."""
    return (word >> (64 - _FRACTION_BITS)) * _FRACTION_SCALE


@lru_cache(maxsize=65536)
def key_position(routing_key: str) -> float:
    """Map a routing key to its place in the key space.

    Returns:
        A number in [0, 1). Uniform for uniform keys and stable for ever: segments own ranges of this
        interval, so a change would move every event of every stream to another segment.
    """
    return hash_to_position(murmur3(routing_key.encode("utf-16-le", "surrogatepass"), SEED_ROUTING_KEY)[0])


def table_key_position(primary_key: bytes) -> float:
    """Map the primary key of a key-value table to the place that decides its partition."""
    return hash_to_position(murmur3(primary_key, SEED_TABLE_KEY)[0])


def split_evenly(whole: KeyRange, count: int) -> list[KeyRange]:
    """Divide ``whole`` into ``count`` equal ranges that share their bounds exactly and end exactly at its
    end.

    Dividing ``i * width`` by the count, instead of multiplying by a rounded quotient, keeps every inner
    bound below the last one; the last bound is copied, because clients refuse a stream that ends below 1.0.
    """
    assert count >= 1
    width = whole.high - whole.low
    bounds = [whole.low + index * width / count for index in range(count)] + [whole.high]
    return [KeyRange(low, high) for low, high in itertools.pairwise(bounds)]


def join_touching(ranges: Iterable[KeyRange]) -> list[KeyRange]:
    """Sort ``ranges`` and join those that touch; overlapping ranges stay apart (callers refuse those)."""
    joined: list[KeyRange] = []
    for piece in sorted(ranges):
        if joined and joined[-1].high == piece.low:
            joined[-1] = KeyRange(joined[-1].low, piece.high)
        else:
            joined.append(piece)
    return joined


def any_overlap(ranges: Sequence[KeyRange]) -> bool:
    ordered = sorted(ranges)
    return any(left.high > right.low for left, right in itertools.pairwise(ordered))


def covers_key_space(ranges: Iterable[KeyRange]) -> bool:
    """Return whether ``ranges`` divide [0, 1) completely and without overlap."""
    return join_touching(ranges) == [FULL_RANGE]
