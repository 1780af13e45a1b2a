"""Which neighbouring chunks of a segment are merged into one: few bytes rewritten for many objects saved.

A chunk is *small* below a part of the longest chunk that merging makes. Small neighbours are merged if they
are enough, and if the new chunk is twice as long as the longest of them, at least. So with each rewrite of a
byte the chunk that holds it doubles, until it is not small any more: a byte that was written in a chunk of
``s`` bytes is rewritten at most ``log2(small / s) + 1`` times, and in a steady stream of equal chunks, of
which ``chunks_min`` are merged at a time, as often as the logarithm to that base says.

A segment that gets no more bytes is merged once and for all: then two are enough.

The chunk at the front may have a truncated part. It is rewritten if that part is large: what is read and
written again is a quarter of what is given back, at most.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from headrace.limits import MIB

GROWTH_MIN: Final = 2
"""How many times longer than the longest chunk that it replaces a merged chunk is, at least."""

_DEAD_SHARE_MIN: Final = 4
_DEAD_BYTES_MIN: Final = 1 * MIB


@dataclass(frozen=True, slots=True)
class MergePolicy:
    """For one segment. Sizes in bytes."""

    target_bytes: int
    """The longest chunk that is made."""

    chunks_min: int
    """Fewer are not merged into one."""

    @property
    def small_bytes(self) -> int:
        """A chunk of so many bytes, or more, is never merged. As many small ones as are merged at least fit
        into one, so that many small chunks always lead to chunks that are not small.
        """
        return max(1, self.target_bytes // max(2, self.chunks_min))


def find_merge(lengths: Sequence[int], policy: MergePolicy) -> range | None:
    """Return the chunks that are to be merged next, of neighbours with these lengths; None if there are none.

    Cost: a pass over them, as long as lengths do not differ by powers of two.
    """
    small, target = policy.small_bytes, policy.target_bytes
    end, total = 0, 0
    for begin, first in enumerate(lengths):
        if end <= begin:
            end, total = begin, 0
        known = end
        while end < len(lengths) and lengths[end] < small and total + lengths[end] <= target:
            total += lengths[end]
            end += 1
        if end > known:
            found = _find_within(lengths, begin, end, policy.chunks_min)
            if found is not None:
                return found
        if end > begin:
            total -= first
    return None


def _find_within(lengths: Sequence[int], begin: int, end: int, chunks_min: int) -> range | None:
    """Return as many of these chunks as are worth merging: those beside the longest if it is too long."""
    pending = [(begin, end)]
    while pending:
        begin, end = pending.pop()
        if end - begin < max(2, chunks_min):
            continue
        longest = max(range(begin, end), key=lengths.__getitem__)
        if sum(lengths[begin:end]) >= GROWTH_MIN * lengths[longest]:
            return range(begin, end)
        pending += [(longest + 1, end), (begin, longest)]
    return None


def find_resumption(lengths: Sequence[int], policy: MergePolicy) -> int:
    """Return how many of the chunks need not be looked at again when more follow: no merge has any of them,
    whatever follows, if :func:`find_merge` has found none.
    """
    total = 0
    for number in range(len(lengths) - 1, -1, -1):
        total += lengths[number]
        if lengths[number] >= policy.small_bytes or total > policy.target_bytes:
            return number + 1
    return 0


def is_mostly_dead(dead_bytes: int, live_bytes: int) -> bool:
    """Whether a chunk, of which a truncation has left ``live_bytes``, is rewritten."""
    return dead_bytes >= max(_DEAD_BYTES_MIN, _DEAD_SHARE_MIN * live_bytes)
