"""One key-value table: values by key, with versions as conditions, and ranges in the order of keys.

async with client.key_value_table("demo", "prices") as table:
    version = await table.put(b"apple---", b"12")
    await table.put(b"apple---", b"13", version)          # if nobody else has changed it
    async for key, value, version in table.scan(prefix=b"app"):
        ...
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, Final, Self, TypeVar, overload

from headrace.client.description import described
from headrace.client.forks import OfOneProcess
from headrace.client.iterators import Items
from headrace.client.owner_calls import OwnerCalls
from headrace.client.segment_map import SegmentRange
from headrace.client.tables.changes import Change, Insert, Put, Remove, check_changes
from headrace.client.tables.key_layout import Given, GivenKey, KeyBounds, KeyLayout
from headrace.client.tables.partitions import Partitions
from headrace.client.tables.table_calls import TableCalls
from headrace.client.tables.table_scan import ReadPage, TableScan
from headrace.client.tables.versions import TableVersion, VersionedEntry, VersionedKey
from headrace.errors import ProtocolError, TableKeyVersionError
from headrace.model.key_value_table import KeyValueTableConfiguration
from headrace.model.names import TABLE_SUFFIX, segment_name
from headrace.model.tables import NOT_EXISTS

_GET_KEYS_MAX: Final = 15
"""Of one request: so many of the largest entries fit into a reply."""

_QUESTIONS_IN_FLIGHT_MAX: Final = 8
_PUTS_IN_FLIGHT_MAX: Final = 64

T = TypeVar("T")


class KeyValueTable(OfOneProcess):
    """Reads and changes one table. Any number of calls may be in flight. Used on one loop.

    A *key* is ``bytes`` in a table without secondary keys, else the pair ``(primary, secondary)``; each part
    has exactly as many bytes as the table was created with. A text in place of bytes, also of a value, is its
    UTF-8; what is read is always bytes. All keys with one primary key are a *family*: in
    one partition, in order, and changed together by one batch.

    Values have at most 1,040,384 bytes. Every call may raise ``InvalidArgumentError``, before anything is
    sent, ``NoSuchKeyValueTableError`` if the table was deleted, ``AccessDeniedError``, and an
    ``UnknownOutcomeError`` or ``OwnershipError`` after the client has given up. Calls are repeated while
    connections break; when it is unknown for that reason whether a conditional change happened,
    ``LostReplyError`` says so.
    """

    def __init__(
        self,
        scope: str,
        name: str,
        configuration: KeyValueTableConfiguration,
        ranges: Sequence[SegmentRange],
        calls: OwnerCalls,
    ) -> None:
        if len(ranges) != configuration.partitions:
            raise ProtocolError(
                f"key-value table {scope}/{name} has {configuration.partitions} partitions, and the "
                f"controller lists {len(ranges)}"
            )
        self.scope = scope
        self.name = name
        self.configuration = configuration
        self._uri = calls.uri
        self._layout = KeyLayout(configuration.primary_key_bytes, configuration.secondary_key_bytes)
        self._partitions = Partitions(ranges)
        self._calls = TableCalls(calls, scope, name)

    def __repr__(self) -> str:
        state = f"{self.configuration.partitions} partitions"
        return described("aio.KeyValueTable", f"{self.scope}/{self.name}", self._uri, state)

    # ------------------------------------------------------------------------------ one key

    @overload
    async def get(self, key: GivenKey) -> bytes | None: ...

    @overload
    async def get(self, key: GivenKey, default: T) -> bytes | T: ...

    async def get(self, key: GivenKey, default: Any = None) -> Any:
        """Return the value of a key, or ``default``."""
        entry = await self.get_entry(key)
        return default if entry is None else entry.value

    async def get_entry(self, key: GivenKey) -> VersionedEntry | None:
        """Return a key with its value and version, or None."""
        (entry,) = await self.get_all([key])
        return entry

    async def get_all(self, keys: Iterable[GivenKey]) -> list[VersionedEntry | None]:
        """Return the entry of each key, None for one that does not exist, in the order of ``keys``.

        It is no snapshot: entries of different keys may be of different times.
        """
        wanted = [self._layout.join(key) for key in keys]
        by_segment: dict[int, list[int]] = {}
        for place, key in enumerate(wanted):
            by_segment.setdefault(self._segment_of(key), []).append(place)
        requests = [
            (segment_id, places[first : first + _GET_KEYS_MAX])
            for segment_id, places in by_segment.items()
            for first in range(0, len(places), _GET_KEYS_MAX)
        ]
        found: list[VersionedEntry | None] = [None] * len(wanted)

        async def read(segment_id: int, places: list[int]) -> None:
            entries = await self._calls.read(segment_id, [wanted[place] for place in places])
            for place, entry in zip(places, entries, strict=True):
                if entry.version != NOT_EXISTS:
                    version = TableVersion(segment_id, entry.version)
                    found[place] = VersionedEntry(self._layout.split(wanted[place]), entry.value, version)

        if len(requests) == 1:
            await read(*requests[0])
        else:
            await _spread(requests, read, _QUESTIONS_IN_FLIGHT_MAX)
        return found

    async def exists(self, key: GivenKey) -> bool:
        """Tell whether there is a value for a key, without fetching it."""
        whole = self._layout.join(key)
        return bool(await self._calls.read_keys(self._segment_of(whole), whole, whole, 1))

    async def put(self, key: GivenKey, value: Given, version: TableVersion | None = None) -> TableVersion:
        """Set the value of a key; return the new version.

        Args:
            key: which.
            value: its new value.
            version: the version that the key must have; None: whatever is there.

        Raises:
            TableKeyMissingError, TableKeyVersionError: the key has not that version; nothing changed.
            LostReplyError: it is unknown whether the key had it and was changed.
        """
        (new,) = await self.apply([Put(key, value, version)])
        return new

    async def insert(self, key: GivenKey, value: Given) -> TableVersion:
        """Set the value of a key that does not exist; return the version.

        Raises:
            TableKeyVersionError: the key exists; nothing changed.
            LostReplyError: it is unknown whether it was inserted.
        """
        (new,) = await self.apply([Insert(key, value)])
        return new

    async def remove(self, key: GivenKey, version: TableVersion | None = None) -> None:
        """Remove a key. Removing one that does not exist succeeds, without a condition.

        Args:
            key: which.
            version: the version that the key must have; None: whatever is there.

        Raises:
            TableKeyMissingError, TableKeyVersionError: the key has not that version; nothing changed.
            LostReplyError: it is unknown whether the key had it and was removed.
        """
        await self.apply([Remove(key, version)])

    # ------------------------------------------------------------------------------ several keys

    async def apply(self, changes: Iterable[Change]) -> list[TableVersion]:
        """Make several changes of one family, all or none; at most 256, with 16 MB together.

        Args:
            changes: :class:`Put` and :class:`Insert`, or :class:`Remove`; all with one primary key.

        Returns:
            The new versions in order; nothing for removals.

        Raises:
            TableKeyMissingError, TableKeyVersionError: a condition does not hold; nothing changed.
            LostReplyError: it is unknown whether all happened or nothing.
        """
        batch = check_changes(self._layout, changes)
        if batch is None:
            return []
        segment_id = self._partitions.segment_of(batch.primary_key)
        for other in batch.segment_ids:
            if other != segment_id:
                segment = segment_name(self.scope, self.name + TABLE_SUFFIX, segment_id)
                raise TableKeyVersionError(
                    segment, f"{segment}: a version of segment {other} is none of a key here; nothing changed"
                )
        if batch.keys:
            await self._calls.remove(segment_id, batch)
            return []
        versions = await self._calls.update(segment_id, batch)
        return [TableVersion(segment_id, version) for version in versions]

    async def count(self) -> int:
        """Return how many keys the table has. Servers other than ours count changes only after a while."""
        total = 0

        async def add(segment_id: int) -> None:
            nonlocal total
            entries = await self._calls.count_entries(segment_id)
            total += entries  # only now: other partitions were added meanwhile

        await _spread([(each,) for each in self._partitions.segment_ids], add, _QUESTIONS_IN_FLIGHT_MAX)
        return total

    async def put_all(self, entries: Mapping[Any, Given] | Iterable[tuple[GivenKey, Given]]) -> None:
        """Put any number of entries, whatever is there, many at a time; not as one.

        Of a key that is given twice either value may be there in the end. After an error some entries are put
        and some are not; all of them may be put again.
        """
        pairs = entries.items() if isinstance(entries, Mapping) else entries
        await _spread(pairs, self.put, _PUTS_IN_FLIGHT_MAX)

    async def remove_all(self, keys: Iterable[GivenKey]) -> None:
        """Remove any number of keys, whatever is there, many at a time; not as one."""
        await _spread(((key,) for key in keys), self.remove, _PUTS_IN_FLIGHT_MAX)

    # ------------------------------------------------------------------------------ ranges

    def scan(
        self,
        primary: Given | None = None,
        *,
        first: Given | None = None,
        last: Given | None = None,
        prefix: Given | None = None,
    ) -> AsyncIterator[VersionedEntry]:
        """Iterate over entries in the order of their keys: of the whole table, or of a range.

        It is no snapshot: changes of the meantime may be part of it or not. An entry that exists all the time
        comes once. After a wait that was cancelled, or has failed, the same iterator goes on.

        Args:
            primary: only the family of this primary key; the others are about its secondary keys then, else
                about primary keys.
            first: the first key of the range, or its beginning.
            last: the last key of the range, itself included, or its beginning.
            prefix: what the keys of the range begin with, instead of ``first`` and ``last``.
        """
        return Items(self.scan_pages(primary, first=first, last=last, prefix=prefix))

    def scan_keys(
        self,
        primary: Given | None = None,
        *,
        first: Given | None = None,
        last: Given | None = None,
        prefix: Given | None = None,
    ) -> AsyncIterator[VersionedKey]:
        """Iterate over keys with their versions, without their values; arguments as of :meth:`scan`."""
        return Items(self.scan_key_pages(primary, first=first, last=last, prefix=prefix))

    def scan_pages(
        self,
        primary: Given | None = None,
        *,
        first: Given | None = None,
        last: Given | None = None,
        prefix: Given | None = None,
    ) -> AsyncIterator[Sequence[VersionedEntry]]:
        """Iterate over what :meth:`scan` gives, many entries at once."""
        return self._scan(self._entry_page, self._layout.bounds(primary, first, last, prefix))

    def scan_key_pages(
        self,
        primary: Given | None = None,
        *,
        first: Given | None = None,
        last: Given | None = None,
        prefix: Given | None = None,
    ) -> AsyncIterator[Sequence[VersionedKey]]:
        """Iterate over what :meth:`scan_keys` gives, many keys at once."""
        return self._scan(self._key_page, self._layout.bounds(primary, first, last, prefix))

    def _scan(self, read_page: ReadPage, bounds: KeyBounds) -> TableScan:
        primary = self._layout.primary_of(bounds.first)
        if primary == self._layout.primary_of(bounds.last):
            return TableScan(read_page, [self._partitions.segment_of(primary)], bounds)
        return TableScan(read_page, self._partitions.segment_ids, bounds)

    async def _entry_page(
        self, segment_id: int, first: bytes, last: bytes, count: int
    ) -> tuple[list[VersionedEntry], bytes]:
        page = await self._calls.read_entries(segment_id, first, last, count)
        split = self._layout.split
        return [
            VersionedEntry(split(each.key), each.value, TableVersion(segment_id, each.version))
            for each in page
        ], page[-1].key if page else b""

    async def _key_page(
        self, segment_id: int, first: bytes, last: bytes, count: int
    ) -> tuple[list[VersionedKey], bytes]:
        page = await self._calls.read_keys(segment_id, first, last, count)
        split = self._layout.split
        return [VersionedKey(split(each.key), TableVersion(segment_id, each.version)) for each in page], page[
            -1
        ].key if page else b""

    def _segment_of(self, whole_key: bytes) -> int:
        return self._partitions.segment_of(self._layout.primary_of(whole_key))

    # ------------------------------------------------------------------------------ life

    async def close(self) -> None:
        """Nothing is open but what the client shares; calls in flight go on."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


async def _spread(
    requests: Iterable[tuple[Any, ...]], call: Callable[..., Coroutine[Any, Any, Any]], in_flight_max: int
) -> None:
    """Make calls, some of them at a time. The first failure ends those that are in flight."""
    left = iter(requests)

    async def work() -> None:
        for request in left:
            await call(*request)

    workers = [asyncio.ensure_future(work()) for _ in range(in_flight_max)]
    try:
        await asyncio.gather(*workers)
    finally:
        for worker in workers:
            worker.cancel()
        await asyncio.gather(*workers, return_exceptions=True)
