"""The state of one container: its segments, its sequence number, the rows of its long-term storage."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from headrace.errors import NoSuchSegmentError
from headrace.segmentstore.segment_names import is_index, segment_id_of
from headrace.segmentstore.state.segment_state import SegmentState
from headrace.storage.metadata.rows import SEGMENT_PREFIX


@dataclass(slots=True, eq=False)
class ContainerState:
    """Used on one container's loop. Changed by the methods below and by :mod:`.transitions`."""

    container_id: int
    epoch: int = 0
    sequence: int = 0
    """The highest sequence number assigned so far."""
    by_id: dict[int, SegmentState] = field(default_factory=dict)
    """Every active segment, and retired ones until they are forgotten."""
    by_name: dict[str, SegmentState] = field(default_factory=dict)
    """Segments with a name: not merged or deleted, durably."""
    storage_rows: dict[str, bytes] = field(default_factory=dict)
    """Rows of long-term storage about the container's own segments (durable); the others are in its table of
    them.
    """
    accepted_storage_rows: dict[str, bytes] = field(default_factory=dict)
    """The same with changes in flight: the rows of a metadata checkpoint."""

    retired: dict[SegmentState, None] = field(default_factory=dict)
    """Segments whose merge or deletion is accepted, until :meth:`forget`."""
    retired_total: int = 0
    """Segments retired since the start."""
    active_max: int = 0
    """Bound of ``by_name`` for new segments and activations; 0 for none."""

    @property
    def is_full(self) -> bool:
        return 0 < self.active_max <= len(self.by_name)

    def begin(self, epoch: int) -> None:
        """The ownership of the log by this process begins."""
        self.epoch = epoch

    def bound_active(self, active_max: int) -> None:
        """Set the bound of active segments, after recovery."""
        self.active_max = active_max

    def advance(self, sequence: int) -> None:
        """An operation with that number was read from the log."""
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
        """A segment is created or activated."""
        self.by_id[state.segment_id] = state
        self.by_name[state.name] = state

    def evict(self, segment_id: int) -> SegmentState:
        """A segment becomes inactive. Return its object, which must not be used as the segment any more."""
        state = self.by_id.pop(segment_id)
        del self.by_name[state.name]
        state.evicted = True
        state.accepted_deleted = True  # calls that still hold it are refused by the check for that
        return state

    def note_index(self, row_key: str) -> None:
        """A row of long-term storage is there: if it is that of an attribute index, its segment has one."""
        if row_key.startswith(SEGMENT_PREFIX) and is_index(row_key):
            state = self.by_id.get(segment_id_of(row_key))
            if state is not None:
                state.note_index()

    def retire(self, state: SegmentState) -> None:
        """The merge or deletion of a segment is accepted."""
        self.retired[state] = None
        self.retired_total += 1

    def remove_rows(self, keys: Iterable[str]) -> None:
        """Remove rows of storage that were evicted with their segment."""
        for key in keys:
            del self.accepted_storage_rows[key], self.storage_rows[key]

    def forget(self, state: SegmentState) -> None:
        """Storage has removed a retired segment: nothing refers to it any more."""
        self.by_id.pop(state.segment_id, None)
        self.retired.pop(state, None)
        if self.by_name.get(state.name) is state:
            del self.by_name[state.name]

    def check(self) -> None:
        """Assert the invariants of the container and of every segment."""
        for segment_id, state in self.by_id.items():
            assert state.segment_id == segment_id <= self.sequence
            assert state.last_used <= self.sequence
            assert (state.accepted_deleted or state.accepted_merged) == (state in self.retired)
            state.check()
        for state in self.retired:
            assert self.by_id.get(state.segment_id) is state
        for name, state in self.by_name.items():
            assert state.name == name
            assert self.by_id.get(state.segment_id) is state
            assert not state.deleted
            assert not state.merged
