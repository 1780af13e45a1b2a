"""What one container knows: its segments, its place in the log, the rows of its long-term storage."""

from __future__ import annotations

from dataclasses import dataclass, field

from headrace.errors import NoSuchSegmentError
from headrace.segmentstore.container.segment_state import SegmentState


@dataclass(slots=True, eq=False)
class ContainerState:
    """Owned and changed by one container's loop."""

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

    def next_sequence(self) -> int:
        self.sequence += 1
        return self.sequence

    def find(self, name: str) -> SegmentState | None:
        return self.by_name.get(name)

    def get(self, name: str) -> SegmentState:
        """Return the live segment of that name.

        Raises:
            NoSuchSegmentError: unknown, deleted or merged.
        """
        state = self.by_name.get(name)
        if state is None or state.accepted_deleted or state.accepted_merged:
            raise NoSuchSegmentError(name)
        return state

    def forget(self, state: SegmentState) -> None:
        """Storage has let go of a merged or deleted segment: nothing refers to it any more."""
        self.by_id.pop(state.segment_id, None)
        if self.by_name.get(state.name) is state:
            del self.by_name[state.name]

    def check(self) -> None:
        """Assert the invariants of the container and of every segment."""
        for segment_id, state in self.by_id.items():
            assert state.segment_id == segment_id <= self.sequence
            state.check()
        for name, state in self.by_name.items():
            assert state.name == name
            assert self.by_id.get(state.segment_id) is state
            assert not state.deleted
            assert not state.merged
