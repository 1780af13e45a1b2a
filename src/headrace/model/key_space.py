"""The key space [0, 1): where a routing key falls, and how ranges divide it. Pure.

A range contains its lower bound and excludes its upper bound. Bounds are compared bit by bit, because clients
compare the bounds of a segment with those of its successors exactly.

Source: protocol, key ranges and routing-key hash.
"""

from __future__ import annotations

import itertools
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from headrace.model.hashing import SEED_ROUTING_KEY, murmur3

_WORD: Final = struct.Struct(">Q")
_DOUBLE: Final = struct.Struct(">d")
_ONE_BITS: Final = 0x3FF0_0000_0000_0000


@dataclass(frozen=True, slots=True)
class KeyRange:
    """``[low, high)`` within [0, 1)."""

    low: float
    high: float

    def overlaps(self, other: KeyRange) -> bool:
        return self.low < other.high and self.high > other.low

    def contains(self, position: float) -> bool:
        return self.low <= position < self.high


FULL_RANGE: Final = KeyRange(0.0, 1.0)


def hash_to_position(word: int) -> float:
    """Turn the first 64-bit word of a hash into a position in [0, 1)."""
    position: float = _DOUBLE.unpack(_WORD.pack(_ONE_BITS + (word >> 12)))[0]
    return position - 1.0


def key_position(routing_key: str) -> float:
    """Return where the events of ``routing_key`` fall in the key space."""
    return hash_to_position(murmur3(routing_key.encode("utf-16-le"), SEED_ROUTING_KEY)[0])


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
    """Sort ``ranges`` and join those that touch; overlapping ranges stay apart (callers refuse them
    first).
    """
    joined: list[KeyRange] = []
    for piece in sorted(ranges, key=lambda each: (each.low, each.high)):
        if joined and joined[-1].high == piece.low:
            joined[-1] = KeyRange(joined[-1].low, piece.high)
        else:
            joined.append(piece)
    return joined


def any_overlap(ranges: Sequence[KeyRange]) -> bool:
    ordered = sorted(ranges, key=lambda each: (each.low, each.high))
    return any(left.high > right.low for left, right in itertools.pairwise(ordered))


def covers_key_space(ranges: Iterable[KeyRange]) -> bool:
    """Return whether ``ranges`` divide [0, 1) completely and without overlap."""
    return join_touching(ranges) == [FULL_RANGE]
