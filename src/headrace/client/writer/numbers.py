"""Numbers that an application gives its events: where each belongs, and up to which all are durable. Pure.

A segment remembers the last number of each writer by name. It continues others, which remember theirs, and
those may be further: so what is durable is a question about a place in the key space, not about a segment.
"""

from __future__ import annotations

import itertools
import uuid
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from typing import Any, Final

from headrace.errors import InvalidArgumentError
from headrace.limits import INT64_MAX
from headrace.model.key_space import FULL_RANGE, KeyRange, hash_to_position

NONE: Final = -1
"""Less than every number."""

_NAMESPACE: Final = uuid.UUID("5b7f2f0e-6d0c-5f0b-9a51-0f6a3d9a8d11")
_GOLDEN: Final = 0x9E37_79B9_7F4A_7C15
_MASK: Final = (1 << 64) - 1


def check_name(name: Any) -> None:
    """Raises InvalidArgumentError unless it is one of a writer."""
    if not isinstance(name, str) or not name:
        raise InvalidArgumentError(f"a writer has a name such as 'etl-7', not {name!r:.40}")


def wire_id_of(name: str, segment: str) -> bytes:
    """Return the id under which a segment remembers the number of a writer.

    It is another one in each segment: on one connection, acknowledgements are told apart by it alone.
    """
    return uuid.uuid5(_NAMESPACE, f"{segment} {name}").bytes


class NumberedPlace(float):
    """A position in the key space, with the number of the event that belongs there."""

    __slots__ = ("number",)
    number: int

    @classmethod
    def of(cls, position: float, number: int) -> NumberedPlace:
        place = cls(position)
        place.number = number
        return place


def position_of_number(number: int) -> float:
    """Return where an event without a key belongs: the same for the same number, evenly spread."""
    return hash_to_position(number * _GOLDEN & _MASK)


def check_number(number: Any, last: int) -> None:
    """Check the number of the event that follows the one with number ``last``.

    Raises:
        InvalidArgumentError: it is none, or not greater.
    """
    if type(number) is not int or not 0 <= number <= INT64_MAX:
        raise InvalidArgumentError(
            f"a writer with a name wants the number of each event, 0 to 2^63 - 1, not {number!r:.40}"
        )
    if number <= last:
        raise InvalidArgumentError(f"number {number} is given behind {last}: numbers rise")


def checked_numbers(numbers: Any, count: int, last: int) -> Sequence[int]:
    """Return the numbers of some events, at least one.

    Args:
        numbers: of the first event, the others follow one by one; or one for each.
        count: of events.
        last: the number of the event in front of them.

    Raises:
        InvalidArgumentError: they are none, do not rise, or are as many as no events.
    """
    if isinstance(numbers, int):
        check_number(numbers, last)
        check_number(numbers + count - 1, last)
        return range(numbers, numbers + count)
    listed: Sequence[int] = []
    if isinstance(numbers, list | tuple | range):
        listed = numbers
    elif hasattr(numbers, "tolist"):  # an array, of numpy or of Arrow
        listed = numbers.tolist()
    else:
        check_number(numbers, last)  # raises
    if len(listed) != count:
        raise InvalidArgumentError(f"{len(listed)} numbers do not fit {count} events")
    for number in listed:
        check_number(number, last)
        last = number
    return listed


class DurableNumbers:
    """Up to which number the events of a writer are durable, by place in the key space. Mutated by one owner.

    It is the greatest number of all segments that ever received events at that place.
    """

    __slots__ = ("_highs", "_numbers")

    def __init__(self, found: Iterable[tuple[KeyRange, int]]) -> None:
        """Of each segment that knows the writer: its key range, and the last number there."""
        self._highs: list[float] = []
        self._numbers: list[int] = []
        self._combine([(FULL_RANGE, NONE), *found])

    def at(self, position: float) -> int:
        """Return up to which number events at ``position`` are durable; ``NONE`` if none is."""
        return self._numbers[min(bisect_left(self._highs, position), len(self._highs) - 1)]

    @property
    def least(self) -> int:
        """Events up to this number are durable, wherever they belong."""
        return min(self._numbers)

    def raise_to(self, key_range: KeyRange, number: int) -> None:
        """Events up to ``number`` are durable as well, if they belong into ``key_range``."""
        lows = [0.0, *self._highs]
        mine = [KeyRange(*bounds) for bounds in itertools.pairwise(lows)]
        self._combine([*zip(mine, self._numbers, strict=True), (key_range, number)])

    def _combine(self, found: Sequence[tuple[KeyRange, int]]) -> None:
        """Divide the key space at every bound; each part has the greatest number of those that cover it."""
        bounds = sorted({bound for each, _ in found for bound in (each.low, each.high)} - {0.0})
        self._highs, self._numbers = [], []
        low = 0.0
        for high in bounds:
            number = max(number for each, number in found if each.low <= low and high <= each.high)
            if self._numbers and self._numbers[-1] == number:
                self._highs[-1] = high
            else:
                self._highs.append(high)
                self._numbers.append(number)
            low = high
