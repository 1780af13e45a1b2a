"""What the controller asks of segment stores, be they in the same process or behind connections.

Every call may be repeated. Failures are leaves of :mod:`headrace.errors`; the families Ownership, Overload
and UnknownOutcome are worth another attempt.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from headrace.model.tables import TableDelta, TableEntry, TableKey


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
    """The calls themselves, in the words of the segment store."""

    async def create_segment(
        self, segment: str, *, scale_type: int, target_rate: int, rollover_bytes: int
    ) -> None:
        """Raises SegmentExistsError."""

    async def delete_segment(self, segment: str) -> None:
        """Raises NoSuchSegmentError."""

    async def seal_segment(self, segment: str) -> int:
        """Seal and return the final length. Raises NoSuchSegmentError, SegmentSealedError."""

    async def truncate_segment(self, segment: str, offset: int) -> None:
        """Raises NoSuchSegmentError, SegmentTruncatedError, InvalidArgumentError."""

    async def update_policy(self, segment: str, scale_type: int, target_rate: int) -> None:
        """Raises NoSuchSegmentError, SegmentSealedError."""

    async def segment_info(self, segment: str) -> SegmentFacts:
        """Raises NoSuchSegmentError."""

    async def segment_infos(self, segments: Sequence[str]) -> Sequence[SegmentFacts | None]:
        """Return what is known of up to ``BULK_NAMES_MAX`` segments, in their order; None: there is none."""

    async def delete_segments(self, segments: Sequence[str]) -> None:
        """Delete up to ``BULK_NAMES_MAX`` segments; those that are absent are done already.

        After a failure some are deleted; all may be asked for again.
        """

    async def changed_segments(self, marker: int) -> tuple[int, Sequence[tuple[str, int]]]:
        """Return a marker for the next call, and (name, durable length) of segments, tables left out, that
        changed since ``marker``; 0: of all that changed lately. Some are returned twice.
        """

    async def append(self, segment: str, data: bytes, *, expected_offset: int = -1) -> int:
        """Append ``data`` and return where it begins; unless -1, only at ``expected_offset``.

        Raises NoSuchSegmentError, SegmentSealedError, OffsetMismatchError.
        """

    async def read(self, segment: str, offset: int, length_max: int, *, wait: bool) -> SegmentRead:
        """Read up to ``length_max`` bytes; with ``wait``, wait for an append at the tail (until cancelled).

        Raises NoSuchSegmentError, SegmentTruncatedError.
        """

    async def merge_segments(self, target: str, source: str) -> object:
        """Raises NoSuchSegmentError, SegmentSealedError (target), SegmentMergedError."""

    async def merge_batch(self, target: str, sources: Sequence[str]) -> list[int]:
        """Merge in order, skip sources that are gone; return the target's length after each of them.

        Raises NoSuchSegmentError and SegmentSealedError for the target only.
        """

    async def get_attribute(self, segment: str, attribute_id: bytes) -> int:
        """Return the value, or ATTRIBUTE_NULL if it is not set."""

    async def update_attribute(self, segment: str, attribute_id: bytes, value: int, expected: int) -> bool:
        """Set ``value`` if the attribute is ``expected``; return whether it was."""

    async def create_table(self, segment: str, *, key_length: int, rollover_bytes: int) -> None:
        """Raises SegmentExistsError."""

    async def delete_table(self, segment: str, *, must_be_empty: bool) -> None:
        """Raises NoSuchSegmentError, TableNotEmptyError."""

    async def table_update(
        self, segment: str, entries: Sequence[TableEntry], expected_length: int = -1
    ) -> list[int]:
        """Put all entries or none; an entry's version is its condition. Return the new versions.

        Raises NoSuchSegmentError, TableKeyMissingError, TableKeyVersionError.
        """

    async def table_remove(self, segment: str, keys: Sequence[TableKey]) -> object:
        """Remove all keys or none. Raises as :meth:`table_update`."""

    async def table_get(self, segment: str, keys: Sequence[bytes]) -> list[TableEntry | None]: ...

    async def table_keys(
        self, segment: str, token: bytes, count: int, from_key: bytes = b"", to_key: bytes = b""
    ) -> tuple[list[TableKey], bytes]:
        """Return up to ``count`` keys after ``token`` (empty: from the start) and the token after them."""

    async def table_entries(
        self, segment: str, token: bytes, count: int, from_key: bytes = b"", to_key: bytes = b""
    ) -> tuple[list[TableEntry], bytes]: ...

    async def table_delta(self, segment: str, position: int, count: int) -> TableDelta: ...
