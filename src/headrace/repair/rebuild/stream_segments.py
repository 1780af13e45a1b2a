"""Which segments streams have now by the rows of the controller, to compare with what containers have."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from headrace.controller.store.layout import STREAM, member_name
from headrace.controller.store.rows.stream_row import StreamState, decode_stream
from headrace.controller.store.tables import TABLE_PREFIX
from headrace.model.names import segment_name
from headrace.segmentstore.inspection.container_replay import ReplayedContainer
from headrace.segmentstore.inspection.segment_content import SegmentContents, read_table
from headrace.segmentstore.state.segment_state import SegmentState
from headrace.storage.inspect import StoredChunks

_SCOPE_TABLE = f"{TABLE_PREFIX}scope-"


def find_stream_segments(
    segments: Iterable[SegmentState], replayed: ReplayedContainer, chunks: StoredChunks
) -> Iterator[tuple[str, str]]:
    """Yield stream and segment, for each segment in the active epoch of each stream of a scope whose table is
    among ``segments``, those of a container. A stream that is being created may have none yet.

    Raises:
        DataCorruptionError: a table, or a row of it, is damaged.
        OSError: it cannot be read.
    """
    tables = [segment for segment in segments if segment.name.startswith(_SCOPE_TABLE)]
    contents = SegmentContents(replayed, tables, chunks)
    for table in tables:
        scope = table.name.removeprefix(_SCOPE_TABLE).rpartition("-")[0]
        for key, data in read_table(contents, table).items():
            if not key.startswith(STREAM):
                continue
            row = decode_stream(data)
            if row.state is not StreamState.CREATING:
                stream = member_name(key)
                for segment_id in row.epoch.segment_ids():
                    yield f"{scope}/{stream}", segment_name(scope, stream, segment_id)
