"""What one table holds, accepted and durable, and whether the conditions of an update hold.

::

    accepted    updates in flight
    unindexed   durable, behind the end of the index
    frozen      durable, being written to the index
    index       a tree in long-term storage; of its pages some are in memory

The first that has a key tells where its entry is. All of it is by tree key.

Updates follow each other into the log without waiting: conditions are judged by what is *accepted*, that
is, the durable state plus the updates whose append is in flight. Readers see what is *durable*. An update
that fails its condition only because of accepted updates is not refused before those are durable: otherwise
a crash of the host would leave the caller with the answer to an update that never happened.

Nothing here waits: what only storage knows is ``UNKNOWN``, or a condition ``UNDECIDED``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from headrace.errors import OffsetMismatchError, SegmentError, TableKeyMissingError, TableKeyVersionError
from headrace.model.tables import NO_VERSION, NOT_EXISTS, TableEntry, TableKey
from headrace.segmentstore.tables.index_access import IndexRoot, TableIndex
from headrace.segmentstore.tables.index_note import IndexNote, decode_note
from headrace.segmentstore.tables.locations import (
    ABSENT,
    REMOVED,
    UNKNOWN,
    is_copy,
    location_offset,
)
from headrace.segmentstore.tables.unindexed import ENTRY_OVERHEAD_BYTES, UnindexedEntries

ANY_LENGTH: Final = -1
"""As expected length: no condition."""

_NOTHING: Final = IndexNote(0, 0)


class Undecided(Enum):
    """The only value says that a condition takes reading."""

    UNDECIDED = 0


UNDECIDED: Final = Undecided.UNDECIDED


class Batch:
    """Entries appended in one piece, by tree key. ``locations`` holds REMOVED for removals; ``versions``
    those of copies by their offsets.
    """

    __slots__ = ("end", "keys", "locations", "offset", "versions")

    def __init__(
        self,
        offset: int,
        end: int,
        keys: list[bytes],
        locations: list[int],
        versions: dict[int, int] | None = None,
    ) -> None:
        self.offset = offset
        self.end = end
        self.keys = keys
        self.locations = locations
        self.versions = versions


@dataclass(slots=True)
class Learned:
    """What one call has read: values in the index as of ``root``, and versions of copies by their offsets."""

    root: IndexRoot | None = None
    values: dict[bytes, int] = field(default_factory=dict)
    versions: dict[int, int] = field(default_factory=dict)


class TableState:
    """One table. Mutated only by its container's loop."""

    __slots__ = (
        "_accepted", "_batches", "_note", "_noted_root", "_read_version", "durable_end", "frozen",
        "frozen_end", "index", "name", "tail", "unindexed",
    )  # fmt: skip

    def __init__(
        self,
        name: str,
        index: TableIndex,
        unindexed: UnindexedEntries,
        tail: int,
        read_version: Callable[[int], int | None] = lambda _: None,
    ) -> None:
        """``read_version`` returns the version of the copy at an offset, or None if that takes waiting."""
        self.name = name
        self.index = index
        self.unindexed = unindexed
        """Everything durable that the index does not have, and is not frozen."""
        self.frozen: UnindexedEntries | None = None
        """What an index round is about to write."""
        self.frozen_end = 0
        self.tail = tail
        """Where the next batch begins."""
        self.durable_end = tail
        """Everything below is in ``unindexed``, ``frozen`` or the index."""
        self._batches: deque[Batch] = deque()
        self._accepted: dict[bytes, tuple[int, Batch]] = {}
        """Keys touched by batches in flight: their newest location, and the batch it came with."""
        self._read_version = read_version
        self._noted_root: IndexRoot | None = None
        self._note: IndexNote | None = None

    # ---- sizes

    @property
    def in_flight_bytes(self) -> int:
        return self.tail - self.durable_end

    @property
    def in_flight_count(self) -> int:
        return len(self._batches)

    @property
    def note(self) -> IndexNote | None:
        """What the index says about itself, as far as it is known; None: it was never written."""
        root = self.index.root
        if root is not None and root is not self._noted_root:
            self._note = decode_note(root.note, self.name)
            self._noted_root = root
        return self._note

    @property
    def unindexed_count(self) -> int:
        """How many keys are in memory."""
        return len(self.unindexed) + (0 if self.frozen is None else len(self.frozen))

    @property
    def indexed_count(self) -> int:
        """How many keys the index has; while its root is not known, had."""
        root = self._noted_root if self.index.root is None else self.index.root
        return 0 if root is None else root.entries

    @property
    def memory_bytes(self) -> int:
        """An estimate."""
        return self.unindexed_count * (ENTRY_OVERHEAD_BYTES + self.index.key_bytes)

    @property
    def live_bytes(self) -> int:
        """Bytes of the log that hold the newest entry of a key: an upper bound, and exact after an index
        round. Entries in the index that unindexed ones supersede count as well.
        """
        live = self.unindexed.live_bytes + (self.note or _NOTHING).live_bytes
        return live if self.frozen is None else live + self.frozen.live_bytes

    @property
    def key_count_max(self) -> int:
        """An upper bound of the number of durable keys."""
        root = self.index.root
        count = self.unindexed.live_count + (0 if root is None else root.entries)
        return count if self.frozen is None else count + self.frozen.live_count

    def unindexed_bytes(self, start_offset: int) -> int:
        """Return how much of the log, which begins at ``start_offset``, is not in the index."""
        return self.durable_end - max(self.index_end, start_offset)

    @property
    def index_end(self) -> int:
        """Every entry of the log from here on is in memory."""
        return (self.note or _NOTHING).index_end

    @property
    def truncatable_end(self) -> int:
        """Up to where the log may be truncated, if nothing below is live.

        The index that there is must have everything below: else removals that were truncated would be
        unknown after a crash, and the index still have their keys. While the first one is being made, the log
        is replayed from its start after a crash.
        """
        if self.index.root is None:
            return 0
        if self.note is not None:
            return self.note.index_end
        return self.durable_end if self.frozen is None else 0

    # ---- what a key's entry is

    def find_durable(self, key: bytes, learned: Learned | None = None) -> int:
        """Return the durable location of ``key``, REMOVED or UNKNOWN."""
        location = self.unindexed.locations.get(key)
        if location is not None:
            return location
        if self.frozen is not None:
            location = self.frozen.locations.get(key)
            if location is not None:
                return location
        root = self.index.root
        if root is None:
            return UNKNOWN
        if root.page is None:
            return REMOVED
        value = learned.values.get(key) if learned is not None and learned.root is root else None
        if value is None:
            found = self.index.lookup_nowait(key)
            if found is None:
                return UNKNOWN
            value = found[0]
        return REMOVED if value == ABSENT else value

    def find_accepted(self, key: bytes, learned: Learned | None = None) -> int:
        """Return the accepted location of ``key``, REMOVED or UNKNOWN."""
        if self._accepted:
            accepted = self._accepted.get(key)
            if accepted is not None:
                return accepted[0]
        return self.find_durable(key, learned)

    def find_all_durable(self, keys: Sequence[bytes], learned: Learned | None = None) -> list[int]:
        """Do as :meth:`find_durable` for many keys."""
        unindexed = self.unindexed.locations
        frozen = {} if self.frozen is None else self.frozen.locations
        found = [unindexed.get(key, UNKNOWN) for key in keys]
        if frozen:
            found = [
                frozen.get(key, UNKNOWN) if location == UNKNOWN else location
                for key, location in zip(keys, found, strict=True)
            ]
        places = [place for place, location in enumerate(found) if location == UNKNOWN]
        root = self.index.root
        if not places or root is None:
            return found
        values: Sequence[int]
        if root.page is None:
            values = [ABSENT] * len(places)
        elif learned is not None and learned.root is root:
            known = learned.values
            values = [known.get(keys[place], UNKNOWN) for place in places]
        else:
            values = self.index.lookup_nowait(b"".join([keys[place] for place in places])) or ()
        for place, value in zip(places, values, strict=False):
            found[place] = REMOVED if value == ABSENT else value
        return found

    def is_superseded(self, key: bytes, offset: int) -> bool:
        """Whether memory tells that ``key`` has another entry than that at ``offset``, or none, updates in
        flight included.
        """
        if key in self._accepted:
            return True
        location = self.unindexed.locations.get(key)
        if location is None and self.frozen is not None:
            location = self.frozen.locations.get(key)
        if location is None:
            return offset >= self.index_end  # it was in memory: a removal need not be remembered there
        return location_offset(location) != offset

    def is_touched(self, key: bytes) -> bool:
        """Whether an update of ``key`` is in flight."""
        return key in self._accepted

    def find_version(self, location: int, learned: Learned | None = None) -> int | None:
        """Return the version of the entry at a location; None if that takes reading."""
        offset = location_offset(location)
        if not is_copy(location):
            return offset
        if learned is not None and offset in learned.versions:
            return learned.versions[offset]
        if offset >= self.durable_end:
            for batch in self._batches:
                if batch.offset <= offset < batch.end:
                    assert batch.versions is not None
                    return batch.versions[offset]
        return self._read_version(offset)

    # ---- conditions

    def find_violation(
        self,
        items: Sequence[TableEntry] | Sequence[TableKey],
        keys: Sequence[bytes],
        expected_length: int,
        learned: Learned | None = None,
    ) -> SegmentError | Undecided | None:
        """Judge conditions by the accepted state. ``keys`` are the tree keys of ``items``."""
        if expected_length not in (ANY_LENGTH, self.tail):
            return OffsetMismatchError(self.name, expected_length, self.tail)
        return self._judge(items, keys, self.find_accepted, learned)

    def find_durable_violation(
        self,
        items: Sequence[TableEntry] | Sequence[TableKey],
        keys: Sequence[bytes],
        expected_length: int,
        learned: Learned | None = None,
    ) -> SegmentError | Undecided | None:
        """Judge conditions by the durable state alone."""
        if expected_length not in (ANY_LENGTH, self.durable_end):
            return OffsetMismatchError(self.name, expected_length, self.durable_end)
        return self._judge(items, keys, self.find_durable, learned)

    def awaited_end(self, keys: Sequence[bytes], expected_length: int) -> int:
        """Return the length of the log that must be durable before the caller is refused for a violation."""
        if expected_length != ANY_LENGTH:
            return self.tail
        ends = [touched[1].end for key in keys if (touched := self._accepted.get(key)) is not None]
        return max(ends, default=self.durable_end)

    def _judge(
        self,
        items: Sequence[TableEntry] | Sequence[TableKey],
        keys: Sequence[bytes],
        find: Callable[[bytes, Learned | None], int],
        learned: Learned | None,
    ) -> SegmentError | Undecided | None:
        wrong_version = undecided = False
        for number, key in enumerate(keys):
            required = items[number].version
            if required == NO_VERSION:
                continue
            location = find(key, learned)
            if location == REMOVED:
                if required != NOT_EXISTS:
                    return TableKeyMissingError(self.name)  # comes before any wrong version
            elif location == UNKNOWN:
                undecided = True
            elif required == NOT_EXISTS:
                wrong_version = True
            else:
                version = self.find_version(location, learned)
                undecided |= version is None
                wrong_version |= version is not None and version != required
        if undecided:
            return UNDECIDED
        return TableKeyVersionError(self.name) if wrong_version else None

    # ---- changes

    def accept(self, batch: Batch) -> None:
        """``batch`` is being appended at the tail."""
        assert batch.offset == self.tail
        assert batch.end > batch.offset
        self._batches.append(batch)
        self.tail = batch.end
        accepted = self._accepted
        for key, location in zip(batch.keys, batch.locations, strict=True):
            accepted[key] = (location, batch)

    def extend(self, batch: Batch, keys: list[bytes], locations: list[int], size_bytes: int) -> None:
        """Add entries to ``batch``: the newest one, unless it has none yet."""
        if not batch.keys:
            self._batches.append(batch)
        assert self._batches[-1] is batch
        assert batch.end == self.tail
        batch.keys += keys
        batch.locations += locations
        self.tail = batch.end = batch.end + size_bytes
        accepted = self._accepted
        for key, location in zip(keys, locations, strict=True):
            accepted[key] = (location, batch)

    def retract(self, batch: Batch) -> bool:
        """``batch`` was not appended. Returns False if later batches were built upon it: the state is then
        void.
        """
        if not self._batches or self._batches[-1] is not batch:
            return False
        self._batches.pop()
        self.tail = batch.offset
        self._accepted = {
            key: (location, earlier)
            for earlier in self._batches
            for key, location in zip(earlier.keys, earlier.locations, strict=True)
        }
        return True

    def settle(self, durable_length: int) -> None:
        """Everything below ``durable_length`` is durable: these batches are no longer in flight, in order."""
        unindexed, accepted = self.unindexed, self._accepted
        remember = self.remembers_removals
        while self._batches and self._batches[0].end <= durable_length:
            batch = self._batches.popleft()
            for key, location in zip(batch.keys, batch.locations, strict=True):
                if location == REMOVED:
                    unindexed.remove(key, remember=remember)
                else:
                    unindexed.put(key, location)
                newest = accepted.get(key)
                if newest is not None and newest[1] is batch:
                    del accepted[key]
            self.durable_end = batch.end

    @property
    def remembers_removals(self) -> bool:
        """Whether the index may have keys, now or after the running round."""
        root = self.index.root
        return root is None or root.page is not None or self.frozen is not None

    def freeze(self) -> UnindexedEntries:
        """Begin an index round of everything that is durable."""
        assert self.frozen is None
        self.frozen, self.unindexed = self.unindexed, UnindexedEntries()
        self.frozen_end = self.durable_end
        return self.frozen

    def thaw(self, *, is_indexed: bool) -> None:
        """End the index round: the index has what was frozen, or may not have all of it."""
        assert self.frozen is not None
        if not is_indexed:
            self.frozen.update(self.unindexed)
            self.unindexed = self.frozen
        self.frozen = None

    def check(self) -> None:
        """Assert the invariants. Touches every key in memory."""
        at = self.durable_end
        for batch in self._batches:
            assert batch.offset == at
            assert batch.offset < batch.end
            assert len(batch.keys) == len(batch.locations)
            at = batch.end
        assert at == self.tail
        touched = {key for batch in self._batches for key in batch.keys}
        assert touched == set(self._accepted)
        assert self.note is None or self.note.index_end <= self.durable_end
        for entries in (self.unindexed, self.frozen):
            if entries is not None:
                entries.check()
                assert all(location_offset(each) < self.durable_end for each in entries.locations.values())
