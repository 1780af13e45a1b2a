"""Limits of requests to a table: sizes of keys, values and batches, versions, counts, kinds of segments.

Source: protocol, "Size limits" and "Table segments".
"""

from __future__ import annotations

from collections.abc import Sequence

from headrace.errors import InvalidArgumentError
from headrace.limits import (
    TABLE_BATCH_BYTES_MAX,
    TABLE_ENTRY_BYTES_MAX,
    TABLE_KEY_BYTES_MAX,
    TABLE_VALUE_BYTES_MAX,
)
from headrace.model.attributes import ATTRIBUTE_ID_LENGTH, TYPE_FIXED_KEY_TABLE
from headrace.model.tables import NO_VERSION, NOT_EXISTS, TableEntry, TableKey
from headrace.segmentstore.state.segment_state import SegmentState
from headrace.segmentstore.tables.entry_format import ENTRY_HEADER_BYTES


def is_fixed(segment: SegmentState) -> bool:
    """Whether all keys of a table have the length it was created with."""
    return segment.type_bits & TYPE_FIXED_KEY_TABLE == TYPE_FIXED_KEY_TABLE


def key_length_of(segment: SegmentState) -> int:
    """Return the length of a table's keys in bytes, 0 for hash tables."""
    return max(0, segment.attribute(ATTRIBUTE_ID_LENGTH)) if is_fixed(segment) else 0


def check_items(key_length: int, items: Sequence[TableEntry] | Sequence[TableKey]) -> int:
    """Refuse what is to be put or removed if it exceeds a bound; ``key_length`` is 0 for hash tables.

    Returns:
        Its size in the log, in bytes.

    Raises:
        InvalidArgumentError: nothing was changed.
    """
    total = 0
    for item in items:
        check_key(key_length, item.key)
        key_bytes = len(item.key)
        value_bytes = len(item.value) if isinstance(item, TableEntry) else 0
        size = ENTRY_HEADER_BYTES + key_bytes + value_bytes
        if value_bytes > TABLE_VALUE_BYTES_MAX or size > TABLE_ENTRY_BYTES_MAX:
            raise InvalidArgumentError(
                f"a value of {value_bytes} bytes with a key of {key_bytes} is too large: a value may have"
                f" {TABLE_VALUE_BYTES_MAX}, an entry with its header {TABLE_ENTRY_BYTES_MAX}"
            )
        total += size
        if item.version < NOT_EXISTS and item.version != NO_VERSION:
            raise InvalidArgumentError(f"{item.version} is not a version")
    if total > TABLE_BATCH_BYTES_MAX:
        raise InvalidArgumentError(f"an update of {total} bytes exceeds the limit of {TABLE_BATCH_BYTES_MAX}")
    return total


def check_key(key_length: int, key: bytes) -> None:
    if key_length and len(key) != key_length:
        raise InvalidArgumentError(f"keys of this table have {key_length} bytes, not {len(key)}")
    if not 0 < len(key) <= TABLE_KEY_BYTES_MAX:
        raise InvalidArgumentError(f"a key of {len(key)} bytes is not in 1 to {TABLE_KEY_BYTES_MAX}")


def check_count(count: int) -> None:
    if count < 1:
        raise InvalidArgumentError(f"at least one item must be asked for, not {count}")
