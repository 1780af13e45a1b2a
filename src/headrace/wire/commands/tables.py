"""Commands about table segments."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.wire.commands.kinds import Reply, Request
from headrace.wire.fields import Bool, Bytes, Int32, Int64, TableEntries, TableKeys, Text, Versions


@dataclass(slots=True)
class GetTableSegmentInfo(Request):
    """Ask for the properties of a table."""

    request_id: Int64
    segment: Text
    delegation_token: Text


@dataclass(slots=True)
class TableSegmentInfo(Reply):
    """Size of a table and of its log; ``key_length`` is 0 for hash tables."""

    request_id: Int64
    segment: Text
    start_offset: Int64
    length: Int64
    entry_count: Int64
    key_length: Int32


@dataclass(slots=True)
class CreateTableSegment(Request):
    """Create an empty table; ``key_length`` 0 makes a hash table."""

    request_id: Int64
    segment: Text
    delegation_token: Text
    sorted_deprecated: Bool = False
    key_length: Int32 = 0
    rollover_size_bytes: Int64 = 0


@dataclass(slots=True)
class DeleteTableSegment(Request):
    """Remove a table."""

    request_id: Int64
    segment: Text
    must_be_empty: Bool
    delegation_token: Text


@dataclass(slots=True)
class UpdateTableEntries(Request):
    """Put entries, all or none. The version of an entry is its condition."""

    request_id: Int64
    segment: Text
    delegation_token: Text
    table_entries: TableEntries
    table_segment_offset: Int64 = -1


@dataclass(slots=True)
class TableEntriesUpdated(Reply):
    """New versions in the order of the request."""

    request_id: Int64
    updated_versions: Versions


@dataclass(slots=True)
class RemoveTableKeys(Request):
    """Remove keys, all or none. The version of a key is its condition."""

    request_id: Int64
    segment: Text
    delegation_token: Text
    keys: TableKeys
    table_segment_offset: Int64 = -1


@dataclass(slots=True)
class TableKeysRemoved(Reply):
    """The keys do not exist any more."""

    request_id: Int64
    segment: Text


@dataclass(slots=True)
class ReadTable(Request):
    """Look up keys; their versions are ignored."""

    request_id: Int64
    segment: Text
    delegation_token: Text
    keys: TableKeys


@dataclass(slots=True)
class TableRead(Reply):
    """One entry per requested key, in order; NOT_EXISTS and an empty value for a missing one."""

    request_id: Int64
    segment: Text
    entries: TableEntries


@dataclass(slots=True)
class ReadTableKeys(Request):
    """Iterate keys. ``prefix_filter`` is retired."""

    request_id: Int64
    segment: Text
    delegation_token: Text
    suggested_key_count: Int32
    continuation_token: Bytes = b""
    prefix_filter: Bytes = b""
    from_key: Bytes = b""
    to_key: Bytes = b""


@dataclass(slots=True)
class TableKeysRead(Reply):
    """A page of keys and where the next one begins."""

    request_id: Int64
    segment: Text
    keys: TableKeys
    continuation_token: Bytes


@dataclass(slots=True)
class ReadTableEntries(Request):
    """Iterate entries. ``prefix_filter`` is retired."""

    request_id: Int64
    segment: Text
    delegation_token: Text
    suggested_entry_count: Int32
    continuation_token: Bytes = b""
    prefix_filter: Bytes = b""
    from_key: Bytes = b""
    to_key: Bytes = b""


@dataclass(slots=True)
class TableEntriesRead(Reply):
    """A page of entries and where the next one begins."""

    request_id: Int64
    segment: Text
    entries: TableEntries
    continuation_token: Bytes


@dataclass(slots=True)
class ReadTableEntriesDelta(Request):
    """Ask what changed since a position of the table's log."""

    request_id: Int64
    segment: Text
    delegation_token: Text
    from_position: Int64
    suggested_entry_count: Int32


@dataclass(slots=True)
class TableEntriesDeltaRead(Reply):
    """Changed entries and the position to ask from next."""

    request_id: Int64
    segment: Text
    entries: TableEntries
    should_clear: Bool
    reached_end: Bool
    last_position: Int64
