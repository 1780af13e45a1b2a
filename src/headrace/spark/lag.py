"""How far a query is behind the tail of its streams, as ``StreamingQueryProgress`` shows it. Pure.

Spark takes no metrics from a source in Python, but prints what it calls the latest offset; that is a text of
ours.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from headrace.model.stream_cut import COMPLETED

_DAY_MS: Final = 86_400_000
AGES_MS: Final = (10_000, 60_000, 600_000, 3_600_000, _DAY_MS // 4, _DAY_MS, 7 * _DAY_MS, 90 * _DAY_MS)
"""What the time behind is rounded up to: the cuts of a time are about as far apart."""


@dataclass(frozen=True, slots=True)
class Lag:
    """What lies between the end of a batch and the tail."""

    bytes: int
    """In the segments where the batch ends, and in active ones: sealed ones between them are not counted."""
    events: int
    """About so many, by the size of the next ones."""
    ms: int | None
    """The newest event that was read is at most so much older than the tail; None: more than 90 days."""
    segments: int
    """Active ones."""

    def as_json(self) -> dict[str, Any]:
        """Return what is added to an offset; whole numbers."""
        return {
            "behind": {"bytes": self.bytes, "events": self.events, "ms": self.ms},
            "segments": self.segments,
        }


def bytes_behind(position: Mapping[int, int], lengths: Mapping[int, int], tail: Mapping[int, int]) -> int:
    """Return how many bytes lie behind a position, in its segments, whose ``lengths`` are given, and in those
    of the tail.
    """
    own = (lengths.get(each, offset) - offset for each, offset in position.items() if offset != COMPLETED)
    later = (length for each, length in tail.items() if each not in position)
    return sum(max(0, size) for size in own) + sum(later)


def time_behind(was_read: Callable[[int], bool], guess: int | None = None) -> int | None:
    """Return the smallest of some ages, in ms, of which everything that is as old was read; None without one.

    Each question is a call, so it begins at the age of the last batch, if that is known.
    """
    place = AGES_MS.index(guess) if guess in AGES_MS else 0
    if was_read(AGES_MS[place]):
        while place and was_read(AGES_MS[place - 1]):
            place -= 1
        return AGES_MS[place]
    return next((age for age in AGES_MS[place + 1 :] if was_read(age)), None)
