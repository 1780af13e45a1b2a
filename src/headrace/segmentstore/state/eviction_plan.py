"""Decides which segments are evicted: idle for a whole interval, stored, and no longer in the log. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from operator import attrgetter

from headrace.model import attributes as attr
from headrace.segmentstore.state.segment_state import SegmentState


@dataclass(slots=True)
class Candidate:
    """A segment that is about to be evicted."""

    state: SegmentState
    last_used: int
    """As it was when the row was made."""
    row: bytes
    """Its row of the catalogue."""

    @property
    def size_bytes(self) -> int:
        """Approximate bytes of its row in the log."""
        return len(self.row) + len(self.state.name) + 32


IsTableIdle = Callable[[SegmentState], bool]
"""Whether the open table of a segment, if there is one, is idle."""

_FREED_SHARE = 4
_PRESSURE_PERCENT = 80


def is_evictable(state: SegmentState, is_table_idle: IsTableIdle) -> bool:
    """Whether a segment may be evicted, apart from its age."""
    return (
        not state.users
        and not state.pinned
        and state.is_settled
        and not state.is_transient
        and (not state.is_table or is_table_idle(state))
    )


def find_idle(
    segments: Iterable[SegmentState], cutoff: int, is_table_idle: IsTableIdle
) -> list[SegmentState]:
    """Return the segments that may be evicted.

    ``cutoff`` is at most the sequence number at which the log begins. So no operation on a segment last used
    before it is in the log or waits for storage, and recovery does not need the segment.
    """
    return [state for state in segments if state.last_used < cutoff and is_evictable(state, is_table_idle)]


def sort_idle(idle: list[SegmentState]) -> None:
    """Sort into the order of eviction: least recently used first."""
    idle.sort(key=attrgetter("last_used"))


def count_to_evict(active: int, active_max: int) -> int:
    """Return how many segments a forced eviction evicts: enough not to be needed again at once."""
    return max(1, active - active_max + active_max // _FREED_SHARE)


def is_under_pressure(active: int, active_max: int) -> bool:
    """Whether so many segments are active that an eviction may evict every idle one."""
    return 0 < active_max and active * 100 >= active_max * _PRESSURE_PERCENT


def stale_transients(segments: Iterable[SegmentState], epoch: int) -> list[SegmentState]:
    """Return scratch segments of connections to an earlier owner: they are not used any more."""
    return [
        state
        for state in segments
        # The accepted side: a segment whose creation is in flight has no durable attributes.
        if state.is_transient
        and state.attributes.accepted.get(attr.CREATION_EPOCH, epoch) < epoch
        and not state.accepted_deleted
    ]
