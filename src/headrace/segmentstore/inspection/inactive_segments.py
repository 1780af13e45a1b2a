"""Segments of a stopped container that are not in its memory: the rows of its segment catalogue."""

from __future__ import annotations

from collections.abc import Iterator

from headrace.errors import DataCorruptionError
from headrace.segmentstore.container.catalogue_row import decode_row
from headrace.segmentstore.container.segment_catalogue import catalogue_name
from headrace.segmentstore.container.segment_state import SegmentState
from headrace.segmentstore.inspection.chunk_files import ChunkFiles
from headrace.segmentstore.inspection.container_replay import ReplayedContainer
from headrace.segmentstore.inspection.segment_content import SegmentContents
from headrace.segmentstore.inspection.table_entries import read_table


def read_inactive(replayed: ReplayedContainer, files: ChunkFiles) -> Iterator[SegmentState]:
    """Yield the inactive segments, in no order. Keeps the rows of the catalogue in memory meanwhile.

    Their rows of storage are added to ``replayed.archived_rows``, each before its segment is yielded.

    A row whose segment is in memory says nothing: memory is the truth then.

    Raises:
        DataCorruptionError: the catalogue or one of its rows is damaged.
        OSError: a chunk of the catalogue cannot be read.
    """
    state = replayed.state
    catalogue = state.by_name.get(catalogue_name(state.container_id))
    if catalogue is None or not catalogue.durable_length:
        return
    for key, data in read_table(SegmentContents(replayed, [catalogue], files), catalogue).items():
        try:
            row = decode_row(key.decode(), data)
        except UnicodeDecodeError as error:
            raise DataCorruptionError(f"the catalogue's key {key.hex()} is no name of a segment") from error
        segment = row.segment
        if segment.segment_id not in state.by_id:
            replayed.archived_rows.update(row.storage_rows)
            # It was stored before it left.
            segment.stored_length, segment.stored_sealed = segment.durable_length, segment.sealed
            yield segment
