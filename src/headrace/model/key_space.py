"""The key space [0, 1): where a routing key lies, and the ranges of it that segments own.

A position is the top 52 bits of the key's hash as a fraction. The owner of a position is the segment with the
smallest upper bound that is not below it, so a range behaves as (low, high] except that the first one also
owns 0.0. All clients of the protocol decide this way; a server only has to hand out ranges that touch
exactly.

Source: protocol, "Routing-key hash" and "Key ranges"; ``docs/formats/key-space.md``; pinned by
``tests/golden/key_space``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Final

from headrace.errors import InvalidArgumentError
from headrace.model.hashing import SEED_ROUTING_KEY, SEED_TABLE_KEY, murmur3

_FRACTION_BITS: Final = 52
_SCALE: Final = 1.0 / (1 << _FRACTION_BITS)


@dataclass(frozen=True, slots=True, order=True)
class KeyRange:
    """The part of the key space one segment owns."""

    low: float
    high: float

    def __post_init__(self) -> None:
        if not 0.0 <= self.low < self.high <= 1.0:
            raise InvalidArgumentError(f"[{self.low}, {self.high}) is no range of the key space")

    def overlaps(self, other: KeyRange) -> bool:
        """Tell whether some key could belong to both. Ranges that only touch do not overlap."""
        return self.low < other.high and self.high > other.low

    def covers(self, other: KeyRange) -> bool:
        return self.low <= other.low and other.high <= self.high

    def owns(self, position: float) -> bool:
        """Tell whether a segment with this range receives the events at ``position``."""
        return self.low < position <= self.high or (position == self.low == 0.0)

    def split(self, pieces: int) -> list[KeyRange]:
        """Cut into ``pieces`` of equal width that touch exactly and end exactly where this range ends.

        Raises:
            InvalidArgumentError: fewer than one piece, or the range is too narrow for so many.
        """
        if pieces < 1:
            raise InvalidArgumentError(f"a range cannot be split into {pieces} pieces")
        width = self.high - self.low
        bounds = [self.low + width * index / pieces for index in range(pieces)]
        bounds.append(self.high)
        return [KeyRange(low, high) for low, high in pairwise(bounds)]


WHOLE_KEY_SPACE: Final = KeyRange(0.0, 1.0)


def hash_position(word: int) -> float:
    """Map the first 64-bit word of a hash to [0, 1)."""
    return (word >> (64 - _FRACTION_BITS)) * _SCALE


@lru_cache(maxsize=65536)
def key_position(routing_key: str) -> float:
    """Map a routing key to its place in the key space.

    Returns:
        A number in [0, 1). Uniform for uniform keys and stable for ever: segments own ranges of this
        interval, so a change would move every event of every stream to another segment.

    Source: ``docs/formats/key-space.md``; pinned by ``tests/golden/key_space``.
    """
    return hash_position(murmur3(routing_key.encode("utf-16-le", "surrogatepass"), SEED_ROUTING_KEY)[0])


def table_key_position(primary_key: bytes) -> float:
    """Map the primary key of a key-value table to the place that decides its partition."""
    return hash_position(murmur3(primary_key, SEED_TABLE_KEY)[0])


def initial_ranges(count: int) -> list[KeyRange]:
    """Return the ranges of the ``count`` segments a stream starts with. The last one ends at exactly 1.0."""
    return WHOLE_KEY_SPACE.split(count)


def covers_exactly(ranges: Iterable[KeyRange]) -> bool:
    """Tell whether ``ranges`` cover the whole key space without gap or overlap (bit for bit)."""
    edge = 0.0
    for part in sorted(ranges):
        if part.low != edge:
            return False
        edge = part.high
    return edge == 1.0


def join_touching(ranges: Iterable[KeyRange]) -> list[KeyRange]:
    """Join ranges that touch exactly; the result is sorted.

    Two sets of ranges own the same keys exactly if their joined forms are equal.

    Raises:
        InvalidArgumentError: two ranges overlap.
    """
    joined: list[KeyRange] = []
    for part in sorted(ranges):
        if joined and part.low < joined[-1].high:
            raise InvalidArgumentError(f"{part} overlaps {joined[-1]}")
        if joined and part.low == joined[-1].high:
            joined[-1] = KeyRange(joined[-1].low, part.high)
        else:
            joined.append(part)
    return joined


def owner_index(highs: Sequence[float], position: float) -> int:
    """Return the index of the smallest of the sorted bounds ``highs`` that is not below ``position``."""
    low, high = 0, len(highs) - 1
    while low < high:
        middle = (low + high) // 2
        if highs[middle] < position:
            low = middle + 1
        else:
            high = middle
    return low
