"""What a container knows about one segment, and the only legal ways to change it.

Three lengths move left to right through an append's life::

    stored_length  <=  durable_length  <=  accepted_length
    in chunks          in the WAL          validated, in flight

Validation looks at the *accepted* side, readers and callers see the *durable* side. The two differ only by
operations whose frame the log has not acknowledged. If the log fails, the container ends and both are rebuilt
by recovery, so nothing is ever rolled back in place.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from headrace.model import attributes as attr
from headrace.model.attributes import ATTRIBUTE_NULL


@dataclass(slots=True, eq=False)
class SegmentState:
    """One segment. Mutated only by its container's loop. Identity, not value, is equality."""

    segment_id: int
    name: str

    start_offset: int = 0
    accepted_start_offset: int = 0
    stored_length: int = 0
    durable_length: int = 0
    accepted_length: int = 0

    sealed: bool = False
    accepted_sealed: bool = False
    stored_sealed: bool = False

    merged: bool = False
    """Its content was appended to another segment (durable). The bytes may still live under this name."""
    accepted_merged: bool = False
    deleted: bool = False
    accepted_deleted: bool = False
    stored_deleted: bool = False

    last_modified_ms: int = 0
    attributes: dict[bytes, int] = field(default_factory=dict)
    """Durable values; a missing key and ATTRIBUTE_NULL mean the same."""
    accepted_attributes: dict[bytes, int] = field(default_factory=dict)
    """Values validation looks at: durable ones and those in flight."""

    last_used: int = 0
    """Sequence number of the container when this segment was last looked up or changed: eviction's clock."""
    users: int = 0
    """Calls and append targets that hold this object across a wait: it stays in memory until they end."""
    pinned: bool = False
    """Never evicted. Set by whoever needs that, after each recovery."""
    evicted: bool = False
    """This object does not stand for the segment any more; look the name up again."""
    catalogue_row: bytes | None = None
    """The row that the segment catalogue holds, if that is known; it may be outdated."""

    checkpoint_row: bytes | None = None
    """Cached encoding for metadata checkpoints; dropped by whatever changes the accepted side."""

    def attribute(self, attribute_id: bytes) -> int:
        """Return the durable value of an attribute, ATTRIBUTE_NULL if it is not set."""
        return self.attributes.get(attribute_id, ATTRIBUTE_NULL)

    @property
    def is_settled(self) -> bool:
        """Whether nothing is in flight and long-term storage holds every byte."""
        return (
            self.stored_length == self.durable_length == self.accepted_length
            and self.start_offset == self.accepted_start_offset
            and self.sealed == self.accepted_sealed
            and not (self.accepted_deleted or self.accepted_merged)
        )

    @property
    def is_live(self) -> bool:
        """Whether it is neither merged nor deleted, as far as is durable."""
        return not (self.merged or self.deleted)

    @property
    def end_is_durable(self) -> bool:
        """Whether the log has what keeps appends away: a seal, a merge or a deletion that was accepted."""
        return (
            self.sealed is self.accepted_sealed
            and self.merged is self.accepted_merged
            and self.deleted is self.accepted_deleted
        )

    @property
    def storage_name(self) -> str:
        """The name under which long-term storage knows this segment: unique even if the name is used
        again.
        """
        return f"{self.name}.{self.segment_id:x}"

    @property
    def type_bits(self) -> int:
        return max(0, self.accepted_attributes.get(attr.SEGMENT_TYPE, 0))

    @property
    def is_table(self) -> bool:
        return bool(self.type_bits & attr.TYPE_TABLE)

    @property
    def is_transient(self) -> bool:
        return bool(self.type_bits & attr.TYPE_TRANSIENT)

    @property
    def is_system(self) -> bool:
        return self.name.startswith("_system/")

    def check(self) -> None:
        """Assert the invariants of one segment. Cheap enough to run after every change."""
        assert 0 <= self.stored_length <= self.durable_length <= self.accepted_length
        # Truncation may run ahead of the storage writer: start_offset is not bounded by stored_length.
        assert 0 <= self.start_offset <= self.accepted_start_offset <= self.accepted_length
        assert self.start_offset <= self.durable_length
        assert self.accepted_sealed or not self.sealed
        assert self.sealed or not self.stored_sealed
        assert self.accepted_merged or not self.merged
        assert self.accepted_sealed or not self.accepted_merged
        assert self.accepted_deleted or not self.deleted
        assert self.deleted or self.merged or not self.stored_deleted
        assert self.users >= 0
        assert not self.evicted
