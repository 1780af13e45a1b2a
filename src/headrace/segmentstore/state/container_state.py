"""What one container knows: its segments, its place in the log, the rows of its long-term storage."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from headrace.errors import NoSuchSegmentError
from headrace.segmentstore.state.segment_state import SegmentState


@dataclass(slots=True, eq=False)
class ContainerState:
    """Owned by one container's loop. Changed by the verbs below and by :mod:`.transitions`."""

    container_id: int
    epoch: int = 0
    sequence: int = 0
    """The highest sequence number assigned so far."""
    by_id: dict[int, SegmentState] = field(default_factory=dict)
    """Every segment that exists, and merged or deleted ones until storage has let go of them."""
    by_name: dict[str, SegmentState] = field(default_factory=dict)
    """Segments that can be addressed: neither merged nor deleted as far as is durable."""
    storage_rows: dict[str, bytes] = field(default_factory=dict)
    """Metadata of long-term storage (durable)."""
    accepted_storage_rows: dict[str, bytes] = field(default_factory=dict)
    """The same including changes in flight: what a metadata checkpoint describes."""

    departing: dict[SegmentState, None] = field(default_factory=dict)
    """Merged and deleted segments, as far as is accepted, until :meth:`forget`."""
    departures: int = 0
    """How many operations have begun a departure."""
    active_max: int = 0
    """New segments and activations are refused beyond so many in ``by_name``; 0 is no bound."""

    @property
    def is_full(self) -> bool:
        return 0 < self.active_max <= len(self.by_name)

    def begin(self, epoch: int) -> None:
        """This process owns the log from now on."""
        self.epoch = epoch

    def bound_active(self, active_max: int) -> None:
        """Everything is recovered: have no more segments in memory than that."""
        self.active_max = active_max

    def advance(self, sequence: int) -> None:
        """An operation with that number was met in the log."""
        self.sequence = sequence

    def next_sequence(self) -> int:
        self.sequence += 1
        return self.sequence

    def find(self, name: str) -> SegmentState | None:
        state = self.by_name.get(name)
        if state is not None:
            state.touch(self.sequence)
        return state

    def get(self, name: str) -> SegmentState:
        """Return the live segment of that name.

        Raises:
            NoSuchSegmentError: unknown, deleted or merged.
        """
        state = self.find(name)
        if state is None or state.accepted_deleted or state.accepted_merged:
            raise NoSuchSegmentError(name)
        return state

    def insert(self, state: SegmentState) -> None:
        """A segment begins or comes back."""
        self.by_id[state.segment_id] = state
        self.by_name[state.name] = state

    def evict(self, segment_id: int) -> SegmentState:
        """The segment catalogue stands for a segment from now on. Return the object, which is void."""
        state = self.by_id.pop(segment_id)
        del self.by_name[state.name]
        state.evicted = True
        state.accepted_deleted = True  # whoever still holds it is stopped by the check for that
        return state

    def depart(self, state: SegmentState) -> None:
        """A segment was merged or deleted, as far as is accepted."""
        self.departing[state] = None
        self.departures += 1

    def remove_rows(self, keys: Iterable[str]) -> None:
        """Rows of storage leave memory with their segment: what was evicted is in the log."""
        for key in keys:
            del self.accepted_storage_rows[key], self.storage_rows[key]

    def forget(self, state: SegmentState) -> None:
        """Storage has let go of a merged or deleted segment: nothing refers to it any more."""
        self.by_id.pop(state.segment_id, None)
        self.departing.pop(state, None)
        if self.by_name.get(state.name) is state:
            del self.by_name[state.name]

    def check(self) -> None:
        """Assert the invariants of the container and of every segment."""
        for segment_id, state in self.by_id.items():
            assert state.segment_id == segment_id <= self.sequence
            assert state.last_used <= self.sequence
            assert (state.accepted_deleted or state.accepted_merged) == (state in self.departing)
            state.check()
        for state in self.departing:
            assert self.by_id.get(state.segment_id) is state
        for name, state in self.by_name.items():
            assert state.name == name
            assert self.by_id.get(state.segment_id) is state
            assert not state.deleted
            assert not state.merged
