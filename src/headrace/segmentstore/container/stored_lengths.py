"""Updates the stored lengths of segments from the rows of long-term storage, while the log is replayed."""

from __future__ import annotations

from collections.abc import Mapping

from headrace.errors import DataCorruptionError
from headrace.segmentstore.contract import ReadIndex
from headrace.segmentstore.segment_names import is_index, segment_id_of
from headrace.segmentstore.state.container_state import ContainerState
from headrace.storage.metadata.rows import SEGMENT_PREFIX, decode_segment_row


class StoredLengths:
    """Notified of every change of storage rows in the log."""

    def __init__(self, container: ContainerState, read_index: ReadIndex) -> None:
        self._container = container
        self._read_index = read_index

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
