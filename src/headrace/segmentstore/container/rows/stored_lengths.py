"""Updates the stored lengths of segments from the rows of long-term storage, while the log is replayed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from headrace.errors import DataCorruptionError
from headrace.segmentstore.contract import ReadIndex
from headrace.segmentstore.operations.catalogue import Buffer
from headrace.segmentstore.segment_names import is_index, segment_id_of, storage_table_name
from headrace.segmentstore.state.container_state import ContainerState
from headrace.segmentstore.state.segment_state import SegmentState
from headrace.segmentstore.tables.entry_format import REMOVAL, decode_entries
from headrace.storage.metadata.rows import SEGMENT_PREFIX, decode_segment_row

_PREFIX: Final = SEGMENT_PREFIX.encode()


class StoredLengths:
    """Notified of every change of storage rows in the log, in operations and in the table of these rows."""

    def __init__(self, container: ContainerState, read_index: ReadIndex) -> None:
        self._container = container
        self._read_index = read_index
        self._table_name = storage_table_name(container.container_id)

    def on_append(self, segment: SegmentState, offset: int, data: Buffer) -> None:
        """Notice the rows that were appended to the table of them; other appends change nothing.

        Raises as :meth:`on_rows`.
        """
        if segment.name == self._table_name:
            entries, _ = decode_entries(data, offset, segment.name)
            changes: dict[str, bytes | None] = {
                key.decode(): bytes(data[value_at : value_at + value_length])
                for _, _, key, value_length, _, value_at in entries
                if value_length != REMOVAL and key.startswith(_PREFIX)
            }
            self.on_rows(changes)
            for row_key in changes:
                self._container.note_index(row_key)

    def on_rows(self, changes: Mapping[str, bytes | None]) -> None:
        """Raise stored lengths; stored bytes need not stay in memory.

        Raises:
            DataCorruptionError: storage claims more bytes than the segment has.
        """
        for key, value in changes.items():
            if value is None or not key.startswith(SEGMENT_PREFIX) or is_index(key):
                continue
            segment = self._container.by_id.get(segment_id_of(key))
            if segment is None:
                continue
            row = decode_segment_row(value)
            if row.length > segment.durable_length:
                raise DataCorruptionError(
                    f"storage holds {row.length} bytes of segment {segment.name!r}, the log knows "
                    f"{segment.durable_length}"
                )
            if row.length > segment.stored_length:
                segment.note_stored(row.length)
                self._read_index.on_changed(segment)
                self._read_index.free_unneeded(segment)
