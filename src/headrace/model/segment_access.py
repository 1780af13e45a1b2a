"""What is asked of segment stores by name, be they in the same process or behind connections.

One contract for connections, which serve it on the wire, and for the controller, which may repeat any call.
Failures are leaves of :mod:`headrace.errors`; the families Ownership, Overload
and UnknownOutcome are worth another attempt.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from headrace.limits import TABLE_BATCH_BYTES_MAX
from headrace.model.attributes import AttributeUpdate
from headrace.model.tables import TableDelta, TableEntry, TableInfo, TableKey


class SegmentFacts(Protocol):
    """What an answer about a segment has at least. Lengths and offsets in bytes."""

    @property
    def length(self) -> int: ...

    @property
    def start_offset(self) -> int: ...

    @property
    def sealed(self) -> bool: ...


class SegmentRead(Protocol):
    """What one read found: bytes from ``offset`` on, to be taken once."""

    @property
    def offset(self) -> int: ...

    @property
    def at_tail(self) -> bool: ...

    @property
    def end_of_segment(self) -> bool: ...

    def to_bytes(self) -> bytes:
        """Return the bytes; they are empty only at the tail and at the end of a sealed segment."""


class SegmentAccess(Protocol):
    """All segments by their qualified names: the words of the segment store.

    Any call may raise NoSuchSegmentError, and ContainerOfflineError or WrongHostError: look for the owner.
    """

    async def create_segment(
        self, segment: str, /, *, scale_type: int = 0, target_rate: int = 0, rollover_bytes: int = 0
    ) -> None:
        """Raises SegmentExistsError."""

    async def delete_segment(self, segment: str, /) -> None: ...

    async def seal_segment(self, segment: str, /) -> int:
        """Seal and return the final length. Raises SegmentSealedError if it was sealed already."""

    async def truncate_segment(self, segment: str, /, offset: int) -> None:
        """Raises SegmentTruncatedError if ``offset`` is not between start offset and length."""

    async def update_policy(self, segment: str, /, scale_type: int, target_rate: int) -> None:
        """Raises SegmentSealedError."""

    async def segment_info(self, segment: str, /) -> SegmentFacts: ...

    async def segment_infos(self, segments: Sequence[str]) -> Sequence[SegmentFacts | None]:
        """Return what is known of up to ``BULK_NAMES_MAX`` segments, in their order; None: there is none."""

    async def delete_segments(self, segments: Sequence[str]) -> None:
        """Delete up to ``BULK_NAMES_MAX`` segments; those that are absent are done already.

        After a failure some are deleted; all may be asked for again.
        """

    async def changed_segments(self, marker: bytes) -> tuple[bytes, Sequence[tuple[str, int]]]:
        """Return a marker for the next call, and (name, durable length) of segments, tables left out, that
        changed since ``marker``; empty: of all that changed lately. Some are returned twice.

        A marker is one of :mod:`headrace.model.change_marker`, about all containers that were asked.
        """

    async def append(
        self,
        segment: str,
        /,
        data: bytes | bytearray | memoryview,
        updates: Sequence[AttributeUpdate] = (),
        expected_offset: int = -1,
    ) -> int | None:
        """Append ``data`` and return where it begins; unless -1, only at ``expected_offset``.

        None: it is durable, and the answer that said where was lost.

        Raises SegmentSealedError, OffsetMismatchError, AttributeMismatchError.
        """

    async def read(self, segment: str, /, offset: int, length_max: int, *, wait: bool) -> SegmentRead:
        """Read up to ``length_max`` bytes; with ``wait``, wait for an append at the tail (until cancelled).

        Raises SegmentTruncatedError, SegmentSealedError (sealed while waiting).
        """

    async def merge_segments(self, target: str, source: str, updates: Sequence[AttributeUpdate] = ()) -> int:
        """Return the new length of the target. Raises SegmentSealedError, AttributeMismatchError (target)."""

    async def merge_batch(self, target: str, sources: Sequence[str]) -> list[int]:
        """Merge in order, skip sources that are gone; return the target's length after each of them.

        Raises NoSuchSegmentError and SegmentSealedError for the target only.
        """

    async def get_attribute(self, segment: str, /, attribute_id: bytes) -> int:
        """Return the value, or ATTRIBUTE_NULL if it is not set."""

    async def update_attribute(self, segment: str, /, attribute_id: bytes, value: int, expected: int) -> bool:
        """Set ``value`` if the attribute is ``expected``, and return that. Raises SegmentSealedError."""

    # ---- tables. An item takes ``TABLE_ITEM_BYTES`` more than its key and value. An answer is bounded by
    # ``bytes_max``; AnswerTooLargeError: one item, or all that were asked for, exceed it.

    async def create_table(self, segment: str, /, *, key_length: int = 0, rollover_bytes: int = 0) -> None:
        """Create a table: hash (``key_length`` 0) or fixed key. Raises SegmentExistsError."""

    async def delete_table(self, segment: str, /, *, must_be_empty: bool) -> None:
        """Raises TableNotEmptyError, UnsupportedError."""

    async def table_info(self, segment: str, /) -> TableInfo: ...

    async def table_update(
        self, segment: str, /, entries: Sequence[TableEntry], expected_length: int = -1
    ) -> list[int]:
        """Put all entries or none; an entry's version is its condition. Return the new versions.

        Raises TableKeyMissingError, TableKeyVersionError, OffsetMismatchError.
        """

    async def table_remove(
        self, segment: str, /, keys: Sequence[TableKey], expected_length: int = -1
    ) -> None:
        """Remove all keys or none. Raises as :meth:`table_update`."""

    async def table_get(
        self, segment: str, /, keys: Sequence[bytes], bytes_max: int = TABLE_BATCH_BYTES_MAX
    ) -> list[TableEntry | None]:
        """Return one element per key, in order."""

    async def table_keys(
        self,
        segment: str,
        /,
        token: bytes,
        count: int,
        from_key: bytes = b"",
        to_key: bytes = b"",
        bytes_max: int = TABLE_BATCH_BYTES_MAX,
    ) -> tuple[list[TableKey], bytes]:
        """Return up to ``count`` keys after ``token`` (empty: from the start) and the token after them."""

    async def table_entries(
        self,
        segment: str,
        /,
        token: bytes,
        count: int,
        from_key: bytes = b"",
        to_key: bytes = b"",
        bytes_max: int = TABLE_BATCH_BYTES_MAX,
    ) -> tuple[list[TableEntry], bytes]: ...

    async def table_delta(
        self, segment: str, /, position: int, count: int, bytes_max: int = TABLE_BATCH_BYTES_MAX
    ) -> TableDelta:
        """Return what changed since ``position``. Raises UnsupportedError for keys of fixed length."""
