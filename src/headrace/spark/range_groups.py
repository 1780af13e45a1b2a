"""Which ranges of segments one task of Spark reads: a task for each core, whatever the segments. Pure.

A task has a price of its own, about 50 ms of a Python worker, so a batch of a stream of 16 segments is read
by as many tasks as there are cores. What is large gets more tasks: one that fails is repeated as a whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from headrace.limits import MIB

LARGE_BYTES: Final = 64 * MIB
"""Of a task beyond which there is another one, unless the number of tasks is limited."""


@dataclass(frozen=True, slots=True)
class SegmentRange:
    """Bytes ``[start, end)`` of a segment; both are event boundaries."""

    scope: str
    stream: str
    segment_id: int
    start: int
    end: int
    has_records: bool = False
    marks: tuple[tuple[int, int], ...] = ()
    """Of a plain stream: offsets with times, if they are wanted."""

    @property
    def size(self) -> int:
        return self.end - self.start


@dataclass(frozen=True, slots=True)
class PartitionBounds:
    """How many partitions a read may have; 0: not said."""

    low: int = 0
    high: int = 0
    parallelism: int = 1
    """What the session can do at once, as far as that is known."""

    def count_for(self, size: int) -> int:
        """Return how many partitions ``size`` bytes are read in, if there are as many ranges."""
        return self.high or max(1, self.low, self.parallelism, -(-size // LARGE_BYTES))


def cut_targets(ranges: Sequence[SegmentRange], count: int) -> list[list[int]]:
    """Return for each range the offsets, ascending, about which to cut it for ``count`` pieces or a few more;
    none if there are as many ranges.
    """
    total = sum(each.size for each in ranges)
    if len(ranges) >= count or not total:
        return [[] for _ in ranges]
    targets = []
    for each in ranges:
        pieces = max(1, -(-each.size * count // total))
        targets.append([each.start + each.size * number // pieces for number in range(1, pieces)])
    return targets


def group_ranges(ranges: Sequence[SegmentRange], count: int) -> list[list[SegmentRange]]:
    """Divide ranges into at most ``count`` groups of about the same size.

    Ranges of one segment, and those of a segment and what continues it, keep their order within a group.
    """
    groups: list[list[SegmentRange]] = [[] for _ in range(min(count, len(ranges)))]
    sizes = [0] * len(groups)
    for each in sorted(ranges, key=lambda each: -each.size):  # large ones first: small ones level it out
        place = sizes.index(min(sizes))
        groups[place].append(each)
        sizes[place] += each.size
    for group in groups:
        group.sort(key=lambda each: (each.scope, each.stream, each.segment_id, each.start))
    return groups
