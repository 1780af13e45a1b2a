"""Inactive segments of a stopped container: the rows of its segment catalogue."""

from __future__ import annotations

from collections.abc import Iterator

from headrace.errors import DataCorruptionError
from headrace.segmentstore.container.catalogue_row import decode_row
from headrace.segmentstore.container.segment_catalogue import catalogue_name
from headrace.segmentstore.inspection.container_replay import ReplayedContainer
from headrace.segmentstore.inspection.segment_content import SegmentContents, read_table
from headrace.segmentstore.state.segment_state import SegmentState
from headrace.storage.inspect import StoredChunks


def open_catalogue(replayed: ReplayedContainer, files: StoredChunks) -> SegmentContents:
    """Collect the unstored bytes of the segment catalogue, in another pass over the log if there are any.

    Raises:
        SnapshotLostError: a running server has truncated the log since it was replayed: replay it again.
        DataCorruptionError, OSError: as of the replay.
    """
    catalogue = _find_catalogue(replayed)
    return SegmentContents(replayed, [] if catalogue is None else [catalogue], files)


def read_inactive(replayed: ReplayedContainer, contents: SegmentContents) -> Iterator[SegmentState]:
    """Yield the inactive segments, in no order. The rows of the catalogue are in memory meanwhile.

    ``contents`` are those of the catalogue. The segments' rows of storage are added to
    ``replayed.archived_rows``, each before its segment is yielded.

    The row of a segment that is active is ignored: the state in memory is newer.

    Raises:
        DataCorruptionError: the catalogue or one of its rows is damaged.
        OSError: a chunk of the catalogue cannot be read.
    """
    state = replayed.state
    catalogue = _find_catalogue(replayed)
    if catalogue is None:
        return
    for key, data in read_table(contents, catalogue).items():
        try:
            row = decode_row(key.decode(), data)
        except UnicodeDecodeError as error:
            raise DataCorruptionError(f"the catalogue's key {key.hex()} is no name of a segment") from error
        segment = row.segment
        if segment.segment_id not in state.by_id:
            for row_key, storage_row in row.storage_rows.items():
                replayed.archived_rows.setdefault(row_key, storage_row)
            yield segment


def _find_catalogue(replayed: ReplayedContainer) -> SegmentState | None:
    """Return the table of the catalogue; None if no segment was ever evicted."""
    state = replayed.state
    catalogue = state.by_name.get(catalogue_name(state.container_id))
    return catalogue if catalogue is not None and catalogue.durable_length else None
