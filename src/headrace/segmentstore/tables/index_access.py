"""What a table needs of its index, a tree from tree keys to locations in long-term storage."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from typing import Protocol

from headrace.segmentstore.state.segment_state import SegmentState


class IndexRoot(Protocol):
    """One state of an index. Identity is equality."""

    @property
    def page(self) -> object | None:
        """None: there is no key."""

    @property
    def entries(self) -> int: ...

    @property
    def note(self) -> bytes: ...


class IndexRange(Protocol):
    """Entries of an index, ascending."""

    @property
    def keys(self) -> bytes:
        """One behind the other."""

    @property
    def values(self) -> array[int]: ...


class TableIndex(Protocol):
    """The index of one segment. Keys are passed one behind the other, all of the same length."""

    @property
    def root(self) -> IndexRoot | None:
        """None before :meth:`open`, and after a write whose outcome is unknown."""

    @property
    def key_bytes(self) -> int: ...

    @property
    def keys_at_once(self) -> int:
        """How many keys one durable write takes now."""

    async def open(self) -> IndexRoot:
        """Return the root. Raises DataCorruptionError, StorageReadError."""

    def lookup_nowait(self, keys: bytes) -> array[int] | None:
        """Return the value of each key, ABSENT if none; None if that takes reading."""

    async def lookup(self, keys: bytes) -> array[int]:
        """Return the value of each key as of some root. Raises DataCorruptionError, StorageReadError."""

    async def read_range(self, first: bytes, last: bytes, count_max: int) -> IndexRange:
        """Return up to ``count_max`` entries, bounds included. Raises as :meth:`lookup`."""

    async def update(
        self, keys: bytes, values: array[int], note: bytes | Callable[[array[int]], bytes] = b""
    ) -> array[int]:
        """Set values of sorted keys, or delete those whose value is ABSENT, together with the note or what it
        returns for the values before; durable when it returns those. After an error the root is what it was,
        or None.
        """


class TableIndexes(Protocol):
    """The indexes of one container's segments."""

    def get(self, segment: SegmentState, key_bytes: int = 16) -> TableIndex:
        """Return the index of a segment: the same object until the segment is evicted or deleted."""
