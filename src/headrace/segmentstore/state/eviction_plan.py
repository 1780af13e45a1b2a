"""Decides which segments leave memory: idle for a whole interval, stored, and no longer in the log. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from operator import attrgetter

from headrace.model import attributes as attr
from headrace.segmentstore.state.segment_state import SegmentState


@dataclass(slots=True)
class Candidate:
    """A segment that is about to leave memory."""

    state: SegmentState
    last_used: int
    """As it was when the row was made."""
    row: bytes
    """Its row of the catalogue."""
    storage_rows: Mapping[str, bytes]
    """The rows of long-term storage in that row: they leave with it."""

    @property
    def size_bytes(self) -> int:
        """About what its row takes in the log."""
        return len(self.row) + len(self.state.name) + 32


IsTableIdle = Callable[[SegmentState], bool]
"""Whether nothing uses the open table of a segment, if there is one."""

_ROOM_SHARE = 4
_PRESSURE_PERCENT = 80


def is_evictable(state: SegmentState, is_table_idle: IsTableIdle) -> bool:
    """Whether nothing but its age speaks against evicting a segment."""
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
    """Return those that may be evicted.

    ``cutoff`` is at most the sequence number at which the log begins. So no operation on a segment last used
    before it is in the log, none is on its way to storage, and recovery does not need the segment.
    """
    return [state for state in segments if state.last_used < cutoff and is_evictable(state, is_table_idle)]


def sort_idle(idle: list[SegmentState]) -> None:
    """Bring them into the order in which they leave: least recently used first."""
    idle.sort(key=attrgetter("last_used"))


def count_for_room(active: int, active_max: int) -> int:
    """Return how many segments a forced run evicts: enough not to be called again at once."""
    return max(1, active - active_max + active_max // _ROOM_SHARE)


def is_under_pressure(active: int, active_max: int) -> bool:
    """Whether so many segments are active that a run may take everything that is idle at all."""
    return 0 < active_max and active * 100 >= active_max * _PRESSURE_PERCENT


def stale_transients(segments: Iterable[SegmentState], epoch: int) -> list[SegmentState]:
    """Return scratch segments whose connections an earlier owner served: nobody can use them."""
    return [
        state
        for state in segments
        # The accepted side: one that is being created right now has no durable attributes yet.
        if state.is_transient
        and state.attributes.accepted.get(attr.CREATION_EPOCH, epoch) < epoch
        and not state.accepted_deleted
    ]
