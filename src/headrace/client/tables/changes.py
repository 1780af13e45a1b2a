"""Changes of a table and what may be changed together. Pure.

Source: protocol, "Key-value tables".
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from headrace.client.tables.key_layout import Given, GivenKey, KeyLayout, as_bytes
from headrace.client.tables.versions import NO_SEGMENT, TableVersion, check_version
from headrace.errors import InvalidArgumentError
from headrace.limits import TABLE_UPDATE_BYTES_MAX, TABLE_UPDATE_COUNT_MAX, TABLE_VALUE_BYTES_MAX
from headrace.model.tables import NO_VERSION, NOT_EXISTS, TableEntry, TableKey

_KEY_OVERHEAD_BYTES: Final = 16
_VALUE_OVERHEAD_BYTES: Final = 8


@dataclass(frozen=True, slots=True)
class Put:
    """Set the value of a key, if it has ``version`` (None: whatever is there)."""

    key: GivenKey
    value: Given
    version: TableVersion | None = None


@dataclass(frozen=True, slots=True)
class Insert:
    """Set the value of a key that does not exist."""

    key: GivenKey
    value: Given


@dataclass(frozen=True, slots=True)
class Remove:
    """Remove a key, if it has ``version`` (None: whatever is there, if anything)."""

    key: GivenKey
    version: TableVersion | None = None


Change = Put | Insert | Remove


@dataclass(frozen=True, slots=True)
class Batch:
    """Changes that happen together or not at all: of entries, or removals of keys; one list is empty."""

    primary_key: bytes
    entries: list[TableEntry]
    keys: list[TableKey]
    segment_ids: frozenset[int]
    """Of the versions that are conditions."""
    size_bytes: int

    @property
    def is_conditional(self) -> bool:
        return any(each.version != NO_VERSION for each in self.entries or self.keys)

    @property
    def first_key(self) -> bytes:
        return (self.entries or self.keys)[0].key

    @property
    def count(self) -> int:
        return len(self.entries) + len(self.keys)


def check_changes(layout: KeyLayout, changes: Iterable[Change]) -> Batch | None:
    """Return changes as one batch; None: there is none.

    Raises:
        InvalidArgumentError: a key, a value or a version is none, the changes are too many or too large, put
            and remove, concern several primary keys, or one key twice.
    """
    given: Sequence[Change] = list(changes)
    if not given:
        return None
    if len(given) > TABLE_UPDATE_COUNT_MAX:
        raise InvalidArgumentError(
            f"{len(given)} changes are more than the limit of {TABLE_UPDATE_COUNT_MAX} at once"
        )
    batch = Batch(b"", [], [], frozenset(), 0)
    size, segment_ids, distinct = 0, set(), set()
    for change in given:
        if not isinstance(change, Change):
            raise InvalidArgumentError(f"a change is a Put, an Insert or a Remove, not {change!r:.60}")
        key = layout.join(change.key)
        distinct.add(key)
        size += _KEY_OVERHEAD_BYTES + len(key)
        version = NOT_EXISTS if isinstance(change, Insert) else NO_VERSION
        if not isinstance(change, Insert) and change.version is not None:
            segment_id, version = check_version(change.version)
            if version < 0:
                raise InvalidArgumentError(f"{version} is no version of a key that exists")
            if segment_id != NO_SEGMENT:
                segment_ids.add(segment_id)
        if isinstance(change, Remove):
            batch.keys.append(TableKey(key, version))
        else:
            value = _check_value(change.value)
            size += _VALUE_OVERHEAD_BYTES + len(value)
            batch.entries.append(TableEntry(key, value, version))
    if batch.keys and batch.entries:
        raise InvalidArgumentError("puts and removals cannot be one batch")
    primary_keys = {layout.primary_of(key) for key in distinct}
    if len(primary_keys) > 1:
        raise InvalidArgumentError(f"one batch has one primary key, not {len(primary_keys)}")
    if len(distinct) < len(given):
        raise InvalidArgumentError("a key comes twice in one batch")
    if size > TABLE_UPDATE_BYTES_MAX:
        raise InvalidArgumentError(
            f"a batch of {size} bytes is larger than the limit of {TABLE_UPDATE_BYTES_MAX}"
        )
    return Batch(primary_keys.pop(), batch.entries, batch.keys, frozenset(segment_ids), size)


def _check_value(given: Given) -> bytes:
    value = as_bytes(given, "value")
    if len(value) > TABLE_VALUE_BYTES_MAX:
        raise InvalidArgumentError(
            f"a value of {len(value)} bytes is larger than the limit of {TABLE_VALUE_BYTES_MAX}"
        )
    return value
