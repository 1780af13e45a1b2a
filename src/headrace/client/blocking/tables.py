"""Key-value tables for threads: mappings from keys to values, and the calls with versions."""

from __future__ import annotations

from collections.abc import (
    ItemsView,
    Iterable,
    Iterator,
    Mapping,
    MutableMapping,
    ValuesView,
)
from operator import attrgetter
from types import TracebackType
from typing import Any, Final, Self

from headrace.client.blocking.loop_iterator import LoopIterator, PageIterator
from headrace.client.blocking.loop_thread import LoopThread
from headrace.client.description import waiting
from headrace.client.forks import OfOneProcess
from headrace.client.tables import key_value_table
from headrace.client.tables.changes import Change
from headrace.client.tables.key_layout import Given, GivenKey, Key, as_bytes
from headrace.client.tables.versions import TableVersion, VersionedEntry, VersionedKey
from headrace.errors import TableKeyMissingError, TableKeyVersionError
from headrace.model.key_value_table import KeyValueTableConfiguration

_NOTHING: Final = object()
_KEY_OF: Final = attrgetter("key")
_VALUE_OF: Final = attrgetter("value")
_PAIR_OF: Final = attrgetter("key", "value")


class KeyValueTable(OfOneProcess, MutableMapping[Key, bytes]):
    """A table as a mapping, in the order of its keys, and with versions. For any number of threads.

    Keys, errors and limits are those of :class:`KeyValueTable`. ``len``, iteration and what is made of them
    ask the servers each time; iteration is no snapshot. ``items()`` fetches pages of entries, which
    ``dict(table)`` does not: write ``dict(table.items())``. Two tables are equal only if they are one object.
    """

    __eq__ = object.__eq__
    __hash__ = object.__hash__

    def __init__(self, table: key_value_table.KeyValueTable, thread: LoopThread) -> None:
        self._table = table
        self._thread = thread

    def __repr__(self) -> str:
        return waiting(repr(self._table))

    @property
    def configuration(self) -> KeyValueTableConfiguration:
        """What the table was created with."""
        return self._table.configuration

    # ------------------------------------------------------------------------------ as a mapping

    def __getitem__(self, key: GivenKey) -> bytes:
        """Return the value of a key. Raises KeyError."""
        entry = self.get_entry(key)
        if entry is None:
            raise KeyError(key)
        return entry.value

    def __setitem__(self, key: GivenKey, value: Given) -> None:
        """Set the value of a key, whatever is there."""
        self.put(key, value)

    def __delitem__(self, key: GivenKey) -> None:
        """Remove a key, whatever its version. Raises KeyError if it does not exist."""
        if not self.exists(key):
            raise KeyError(key)
        self.remove(key)

    def __contains__(self, key: object) -> bool:
        return self.exists(key)  # type: ignore[arg-type]  # what is no key is refused

    def __len__(self) -> int:
        """Return how many keys the table has."""
        return self._thread.run(self._table.count())

    def __iter__(self) -> Iterator[Key]:
        """Iterate over keys in their order."""
        return map(_KEY_OF, self.scan_keys())  # a generator would end with the first interrupt

    def items(self) -> ItemsView[Key, bytes]:
        """Return a view of keys with their values, in the order of keys."""
        return _Items(self)

    def values(self) -> ValuesView[bytes]:
        """Return a view of values in the order of their keys."""
        return _Values(self)

    def pop(self, key: GivenKey, default: Any = _NOTHING) -> Any:
        """Remove a key and return the value it had, as one; ``default`` if it does not exist.

        Raises:
            KeyError: it does not exist, and there is no default.
            LostReplyError: it is unknown whether it was removed.
        """
        while (entry := self.get_entry(key)) is not None:
            try:
                self.remove(key, entry.version)
            except (TableKeyMissingError, TableKeyVersionError):
                continue  # it was changed since it was read
            return entry.value
        if default is _NOTHING:
            raise KeyError(key)
        return default

    def setdefault(self, key: GivenKey, default: Given = b"") -> bytes:
        """Return the value of a key; insert ``default`` if it does not exist.

        Raises:
            LostReplyError: it is unknown whether it was inserted.
        """
        while (entry := self.get_entry(key)) is None:
            try:
                self.insert(key, default)
            except TableKeyVersionError:
                continue  # it was inserted by another caller since
            return as_bytes(default, "value")
        return entry.value

    def update(self, *others: Any, **named: Given) -> None:
        """Put the entries of a mapping, or of pairs, many at a time; not as one. See :meth:`apply`."""
        for entries in (*others, named):
            self.put_all(entries)

    def clear(self) -> None:
        """Remove every key that exists now, many at a time; not as one."""
        for page in LoopIterator(self._thread, self._table.scan_key_pages()):
            self.remove_all(each.key for each in page)

    # ------------------------------------------------------------------------------ with versions

    def get_entry(self, key: GivenKey) -> VersionedEntry | None:
        """Return a key with its value and version, or None."""
        return self._thread.run(self._table.get_entry(key))

    def get_all(self, keys: Iterable[GivenKey]) -> list[VersionedEntry | None]:
        """Return the entry of each key, None for one that does not exist, in the order of ``keys``."""
        return self._thread.run(self._table.get_all(keys))

    def exists(self, key: GivenKey) -> bool:
        """Tell whether there is a value for a key, without fetching it."""
        return self._thread.run(self._table.exists(key))

    def put(self, key: GivenKey, value: Given, version: TableVersion | None = None) -> TableVersion:
        """Set the value of a key, if it has ``version``; see :meth:`KeyValueTable.put`."""
        return self._thread.run(self._table.put(key, value, version))

    def insert(self, key: GivenKey, value: Given) -> TableVersion:
        """Set the value of a key that does not exist; see :meth:`KeyValueTable.insert`."""
        return self._thread.run(self._table.insert(key, value))

    def remove(self, key: GivenKey, version: TableVersion | None = None) -> None:
        """Remove a key, if it has ``version``; see :meth:`KeyValueTable.remove`."""
        self._thread.run(self._table.remove(key, version))

    def apply(self, changes: Iterable[Change]) -> list[TableVersion]:
        """Make several changes of one family, all or none; see :meth:`KeyValueTable.apply`."""
        return self._thread.run(self._table.apply(changes))

    def put_all(self, entries: Mapping[Any, Given] | Iterable[tuple[GivenKey, Given]]) -> None:
        """Put any number of entries, many at a time, not as one; see :meth:`KeyValueTable.put_all`."""
        self._thread.run(self._table.put_all(entries))

    def remove_all(self, keys: Iterable[GivenKey]) -> None:
        """Remove any number of keys, many at a time, not as one."""
        self._thread.run(self._table.remove_all(keys))

    # ------------------------------------------------------------------------------ ranges

    def scan(
        self,
        primary: Given | None = None,
        *,
        first: Given | None = None,
        last: Given | None = None,
        prefix: Given | None = None,
    ) -> Iterator[VersionedEntry]:
        """Iterate over the entries of a range in the order of their keys; see :meth:`KeyValueTable.scan`."""
        return PageIterator(
            self._thread, self._table.scan_pages(primary, first=first, last=last, prefix=prefix)
        )

    def scan_keys(
        self,
        primary: Given | None = None,
        *,
        first: Given | None = None,
        last: Given | None = None,
        prefix: Given | None = None,
    ) -> Iterator[VersionedKey]:
        """Iterate over the keys of a range and their versions; arguments as of :meth:`KeyValueTable.scan`."""
        return PageIterator(
            self._thread, self._table.scan_key_pages(primary, first=first, last=last, prefix=prefix)
        )

    # ------------------------------------------------------------------------------ life

    def close(self) -> None:
        """Nothing is open but what the client shares."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class _Items(ItemsView[Key, bytes]):
    _mapping: KeyValueTable

    def __iter__(self) -> Iterator[tuple[Key, bytes]]:
        return map(_PAIR_OF, self._mapping.scan())

    def __contains__(self, item: Any) -> bool:
        key, value = item
        return self._mapping.get(key) == as_bytes(value, "value")


class _Values(ValuesView[bytes]):
    _mapping: KeyValueTable

    def __iter__(self) -> Iterator[bytes]:
        return map(_VALUE_OF, self._mapping.scan())

    def __contains__(self, value: object) -> bool:
        wanted = as_bytes(value, "value")
        return any(wanted == each for each in self)
