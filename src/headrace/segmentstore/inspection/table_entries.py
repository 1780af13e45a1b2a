"""Tables of a stopped container, read from their segments: every entry, in the order of the log."""

from __future__ import annotations

from collections.abc import Iterator

from headrace.errors import DataCorruptionError
from headrace.segmentstore.inspection.segment_content import SegmentContents
from headrace.segmentstore.state.segment_state import SegmentState
from headrace.segmentstore.tables.entry_format import REMOVAL, decode_entries


def read_entries(contents: SegmentContents, table: SegmentState) -> Iterator[tuple[int, bytes, bytes | None]]:
    """Yield offset, key and value of each entry; the value of a removal is None.

    Raises:
        DataCorruptionError: something is no entry, or the table ends within one.
        OSError: a chunk cannot be read.
    """
    rest = b""
    position = table.start_offset
    for _, data in contents.pieces(table):
        joined = rest + bytes(data) if rest else bytes(data)
        entries, taken = decode_entries(joined, position, table.name)
        for offset, _, key, value_length, _, value_at in entries:
            value = None if value_length == REMOVAL else joined[value_at : value_at + value_length]
            yield offset, key, value
        rest = joined[taken:]
        position += taken
    if rest:
        raise DataCorruptionError(
            f"the table ends with {len(rest)} bytes of an entry", path=table.name, offset=position
        )


def read_table(contents: SegmentContents, table: SegmentState) -> dict[bytes, bytes]:
    """Return what a table holds. Raises as :func:`read_entries`."""
    found: dict[bytes, bytes] = {}
    for _, key, value in read_entries(contents, table):
        if value is None:
            found.pop(key, None)
        else:
            found[key] = value
    return found
