"""What connections need of the store. Everything runs on the store's loop."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from headrace.model.attributes import AttributeUpdate
from headrace.model.tables import TableDelta, TableEntry, TableInfo, TableKey
from headrace.segmentstore.contract import ReadResult, SegmentInfo
from headrace.segmentstore.durablelog.append_batches import AppendOwner
from headrace.segmentstore.state.segment_state import SegmentState
from headrace.segmentstore.tables.update_batch import OnUpdated


class AppendTarget(Protocol):
    """One segment of one container. Cheap, synchronous, on the loop. Lives until NoSuchSegmentError."""

    state: SegmentState

    def last_event_number(self, writer_id: bytes) -> int:
        """Return the durable event number of a writer, ATTRIBUTE_NULL if it never wrote."""

    def accepted_event_number(self, writer_id: bytes) -> int:
        """Return the event number of a writer's last accepted append, durable or not."""

    def is_settled(self, writer_id: bytes) -> bool:
        """Return whether both are known and equal. If not, ``settle`` before a writer is set up."""

    def check_writer(self, writer_id: bytes) -> None:
        """Hold the event number of a writer in memory until the target is closed.

        Raises:
            TooManyAttributesError: the writer is new to a scratch segment that accepts no further ones.
        """

    async def settle(self, writer_id: bytes) -> None:
        """Wait until everything accepted from a writer so far is known and durable.

        Raises:
            ContainerOfflineError: whether it is durable is unknown.
        """

    def can_accept(self, size_bytes: int, expected_offset: int = -1) -> bool:
        """Return whether an append of this size fits now. If not, stop reading and ``wait_capacity``.

        False also while it is not certain yet that the segment is sealed or gone, or longer than expected, or
        shorter and this its owner.
        """

    def wait_capacity(self, size_bytes: int, resume: Callable[[], None]) -> None:
        """Call ``resume`` once, later, on the loop, when a block of that size may fit."""

    def stop_waiting(self, resume: Callable[[], None]) -> None:
        """Forget a ``wait_capacity``; its ``resume`` may still be called if that is scheduled already."""

    def append_block(
        self,
        owner: AppendOwner,
        pieces: Sequence[memoryview],
        size: int,
        *,
        previous_event_number: int,
        last_event_number: int,
        event_count: int,
        request_id: int,
        expected_offset: int = -1,
    ) -> None:
        """Accept ``pieces`` as one append; they are copied before this returns. They may be empty.

        ``expected_offset`` of 0 or more makes it conditional. Such an append is answered by an ``on_durable``
        of its own; plain ones of one owner in one read may share one.

        Raises:
            NoSuchSegmentError, SegmentSealedError: nothing changed.
            AttributeMismatchError: the writer is not at ``previous_event_number``; checked before the offset.
            OffsetMismatchError: the segment has another length than expected.
            FencedOutError: perhaps it has, but this is not its owner.
            ContainerOfflineError: the container has ended; look the target up again.
            ThrottledError: there is no memory for it now; nothing changed.
        """

    def end_of_read(self) -> None:
        """The connection has handed over everything it received."""

    def close(self) -> None:
        """Nothing will be appended any more: the segment may be evicted. Idempotent."""


class StoreFacade(Protocol):
    """The segment store by segment names. Every method may raise NoSuchSegmentError, WrongHostError,
    ContainerOfflineError.
    """

    async def create_segment(
        self, segment: str, *, scale_type: int = 0, target_rate: int = 0, rollover_bytes: int = 0
    ) -> None:
        """Raises SegmentExistsError."""

    async def create_transient_segment(self, parent: str, writer_id: bytes) -> str:
        """Return the name that was made."""

    async def update_policy(self, segment: str, scale_type: int, target_rate: int) -> None:
        """Raises SegmentSealedError."""

    async def segment_info(self, segment: str) -> SegmentInfo: ...

    async def seal_segment(self, segment: str) -> int:
        """Return the final length. Raises SegmentSealedError if it was sealed already."""

    async def truncate_segment(self, segment: str, offset: int) -> None:
        """Raises SegmentTruncatedError if ``offset`` is not between start offset and length."""

    async def delete_segment(self, segment: str) -> None: ...

    async def merge_segments(self, target: str, source: str, updates: Sequence[AttributeUpdate] = ()) -> int:
        """Return the new length of the target. Raises AttributeMismatchError, SegmentSealedError."""

    async def merge_batch(self, target: str, sources: Sequence[str]) -> list[int]:
        """Return the length of the target after each source."""

    async def get_attribute(self, segment: str, attribute_id: bytes) -> int:
        """Return ATTRIBUTE_NULL if it is not set."""

    async def update_attribute(self, segment: str, attribute_id: bytes, value: int, expected: int) -> bool:
        """Return whether the attribute had the expected value. Raises SegmentSealedError."""

    async def read(self, segment: str, offset: int, length_max: int, *, wait: bool) -> ReadResult:
        """Wait for something to read; without ``wait`` only for storage: a read at the tail is answered with
        nothing. Raises SegmentTruncatedError, SegmentSealedError (sealed while waiting).
        """

    def read_nowait(self, segment: str, offset: int, length_max: int) -> ReadResult | None:
        """Return bytes from memory, or None: then :meth:`read` answers."""

    def is_at_tail(self, segment: str, offset: int) -> bool | None:
        """Return whether a read there waits for an append; None while the segment is inactive.

        Never raises: False if there can be no answer but an error.
        """

    def append_target(self, segment: str) -> AppendTarget | None:
        """Return where to append, or None if the segment is inactive or absent: ``open_target`` finds out."""

    async def open_target(self, segment: str) -> AppendTarget:
        """Return where to append, once the segment is active."""

    async def create_table(self, segment: str, *, key_length: int = 0, rollover_bytes: int = 0) -> None:
        """Raises SegmentExistsError."""

    async def delete_table(self, segment: str, *, must_be_empty: bool) -> None:
        """Raises TableNotEmptyError, UnsupportedError."""

    async def table_info(self, segment: str) -> TableInfo: ...

    async def table_update(
        self, segment: str, entries: Sequence[TableEntry], expected_length: int = -1
    ) -> list[int]:
        """Return the new versions. Raises TableKeyMissingError, TableKeyVersionError, OffsetMismatchError."""

    def begin_table_update(
        self, segment: str, entries: Sequence[TableEntry], expected_length: int, on_updated: OnUpdated
    ) -> bool:
        """Begin an update together with others; False if :meth:`table_update` has to do it.

        If ``on_updated`` gets neither versions nor an error, nothing was done, and it has to as well.
        """

    async def table_remove(self, segment: str, keys: Sequence[TableKey], expected_length: int = -1) -> None:
        """Raises TableKeyMissingError, TableKeyVersionError, OffsetMismatchError."""

    def table_get_nowait(
        self, segment: str, keys: Sequence[bytes], bytes_max: int
    ) -> list[TableEntry | None] | None:
        """Return what :meth:`table_get` does if that is in memory, or None."""

    async def table_get(self, segment: str, keys: Sequence[bytes], bytes_max: int) -> list[TableEntry | None]:
        """Return one element per key, in order.

        An item takes ``TABLE_ITEM_BYTES`` more than its key and value. Raises AnswerTooLargeError, before
        anything is fetched.
        """

    async def table_keys(
        self, segment: str, token: bytes, count: int, from_key: bytes, to_key: bytes, bytes_max: int
    ) -> tuple[list[TableKey], bytes]:
        """Return a page and the token behind it. Raises AnswerTooLargeError: for one item."""

    async def table_entries(
        self, segment: str, token: bytes, count: int, from_key: bytes, to_key: bytes, bytes_max: int
    ) -> tuple[list[TableEntry], bytes]:
        """Return a page and the token behind it. Raises AnswerTooLargeError: for one item."""

    async def table_delta(self, segment: str, position: int, count: int, bytes_max: int) -> TableDelta:
        """Raises UnsupportedError for tables with keys of fixed length; AnswerTooLargeError: for one item."""
