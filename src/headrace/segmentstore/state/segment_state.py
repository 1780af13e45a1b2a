"""The state of one segment, and the only legal ways to change it.

The bytes of an append are counted by three lengths, from right to left::

    stored_length  <=  durable_length  <=  accepted_length
    in chunks          in the WAL          validated, in flight

Validation uses the *accepted* side, readers and callers the *durable* side. The two differ only by operations
whose frame the log has not acknowledged. If the log fails, the container ends and both are rebuilt by
recovery, so nothing is ever rolled back in place.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from headrace.limits import INT64_MAX
from headrace.model import attributes as attr
from headrace.model.attributes import ATTRIBUTE_NULL, EVENT_COUNT
from headrace.segmentstore.segment_names import INDEX_SUFFIX
from headrace.segmentstore.state.segment_attributes import SegmentAttributes


@dataclass(slots=True, eq=False)
class SegmentState:
    """One segment. Identity, not value, is equality.

    Its fields are changed by the methods below and by :mod:`.transitions`, on the container's loop; all other
    code reads them.
    """

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
    """Its content was merged into another segment (durable). The bytes may still have this name."""
    accepted_merged: bool = False
    deleted: bool = False
    accepted_deleted: bool = False
    stored_deleted: bool = False

    last_modified_ms: int = 0
    attributes: SegmentAttributes = field(default_factory=SegmentAttributes)

    last_used: int = 0
    """Sequence number of the container when this segment was last looked up or changed, for eviction."""
    users: int = 0
    """Calls and append targets that hold this object across a wait: it is not evicted until they end."""
    pinned: bool = False
    """Never evicted. Set after each recovery by the component that needs it."""
    evicted: bool = False
    """This object does not represent the segment any more; look the name up again."""
    catalogue_row: bytes | None = None
    """Its row in the segment catalogue, if that is known; it may be outdated."""

    checkpoint_row: bytes | None = None
    """Cached encoding for metadata checkpoints; dropped by every change of the accepted side."""

    # -------------------------------------------------------------------------------------- appends

    def accept_block(self, writer_id: bytes, last_event_number: int, event_count: int, size: int) -> None:
        """``size`` more bytes are accepted from a writer. Its event count is not verified, only limited to
        the range of an attribute.
        """
        attributes = self.attributes
        attributes.newer.add(writer_id)
        values = attributes.accepted
        values[writer_id] = last_event_number
        count = values.get(EVENT_COUNT, 0) + event_count
        values[EVENT_COUNT] = min(INT64_MAX, count)
        self.accepted_length += size
        self.checkpoint_row = None

    def apply_batch(
        self, writer_id: bytes, last_event_number: int, event_count: int, end: int, time_ms: int
    ) -> None:
        """An append batch of a writer that ends at ``end`` is durable."""
        values = self.attributes.durable
        values[writer_id] = last_event_number
        values[EVENT_COUNT] = min(INT64_MAX, values.get(EVENT_COUNT, 0) + event_count)
        self.durable_length = end
        self.last_modified_ms = time_ms
        self.checkpoint_row = None  # one encoded since the batch was accepted has the former time

    # -------------------------------------------------------------------------------------- storage

    def note_stored(self, length: int) -> None:
        """The bytes below ``length`` are stored."""
        self.stored_length = length

    def note_stored_seal(self, *, sealed: bool) -> None:
        self.stored_sealed = sealed

    def note_stored_deletion(self) -> None:
        """Long-term storage has removed a merged or deleted segment."""
        self.stored_deleted = True

    def note_all_stored(self) -> None:
        """All of an inactive segment is stored."""
        self.stored_length = self.durable_length
        self.stored_sealed = self.sealed

    # -------------------------------------------------------------------------------------- memory

    def touch(self, sequence: int) -> None:
        """The segment was looked up or changed."""
        self.last_used = sequence

    def hold(self) -> None:
        """Prevent the eviction of the segment until :meth:`release`."""
        self.users += 1

    def release(self) -> None:
        self.users -= 1

    @contextmanager
    def held(self) -> Iterator[None]:
        """:meth:`hold` the segment in a context."""
        self.users += 1
        try:
            yield
        finally:
            self.users -= 1

    def pin(self) -> None:
        """Prevent the eviction of the segment until the container ends."""
        self.pinned = True

    def note_index(self) -> None:
        """The segment has an attribute index, or is about to."""
        self.attributes.note_index()
        self.checkpoint_row = None

    def drop_checkpoint_row(self) -> None:
        """What a checkpoint has of the segment has changed."""
        self.checkpoint_row = None

    def note_catalogue_row(self, row: bytes) -> None:
        """The segment catalogue has ``row``."""
        self.catalogue_row = row

    # -------------------------------------------------------------------------------------- properties

    def attribute(self, core_attribute_id: bytes) -> int:
        """Return the durable value of a core attribute, ATTRIBUTE_NULL if it is not set."""
        return self.attributes.durable.get(core_attribute_id, ATTRIBUTE_NULL)

    @property
    def is_created(self) -> bool:
        """Whether its creation is durable: every segment has attributes from then on."""
        return bool(self.attributes.durable)

    @property
    def is_settled(self) -> bool:
        """Whether nothing is in flight and every byte is stored."""
        return (
            self.stored_length == self.durable_length == self.accepted_length
            and self.start_offset == self.accepted_start_offset
            and self.sealed == self.accepted_sealed
            and not (self.accepted_deleted or self.accepted_merged)
        )

    @property
    def is_live(self) -> bool:
        """Whether it is neither merged nor deleted, durably."""
        return not (self.merged or self.deleted)

    @property
    def end_is_durable(self) -> bool:
        """Whether every accepted seal, merge or deletion, which refuses appends, is durable."""
        return (
            self.sealed is self.accepted_sealed
            and self.merged is self.accepted_merged
            and self.deleted is self.accepted_deleted
        )

    @property
    def storage_name(self) -> str:
        """The name of this segment in long-term storage: unique even if the segment's name is used again."""
        return f"{self.name}.{self.segment_id:x}"

    @property
    def index_storage_name(self) -> str:
        """The name of its attribute index in long-term storage."""
        return self.storage_name + INDEX_SUFFIX

    @property
    def type_bits(self) -> int:
        return max(0, self.attributes.accepted.get(attr.SEGMENT_TYPE, 0))

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
