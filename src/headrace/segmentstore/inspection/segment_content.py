"""The durable bytes of segments of a stopped container, put together from chunks and log, and the entries of
tables in them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from headrace.errors import DataCorruptionError, StorageReadError
from headrace.segmentstore.inspection.container_replay import ReplayedContainer
from headrace.segmentstore.inspection.frames import read_operations
from headrace.segmentstore.operations import catalogue as ops
from headrace.segmentstore.state.segment_state import SegmentState
from headrace.segmentstore.tables.entry_format import REMOVAL, decode_entries
from headrace.storage.chunks.segment_layout import load_layout, walk_chunks
from headrace.storage.inspect import StoredChunks


class SegmentContents:
    """Reads ``segments`` from their start to their durable end. Unstored bytes are in memory.

    Not for targets of merges, unless storage has joined the sources.
    """

    def __init__(
        self, replayed: ReplayedContainer, segments: Iterable[SegmentState], files: StoredChunks
    ) -> None:
        self._find_row = replayed.storage_row
        self._files = files
        self._in_log: dict[int, bytearray] = {
            state.segment_id: bytearray() for state in segments if state.stored_length < state.durable_length
        }
        if self._in_log:
            self._collect(replayed)

    def _collect(self, replayed: ReplayedContainer) -> None:
        """One pass over the log for all segments together."""
        for found in read_operations(replayed.log.frames()):
            operation = found.operation
            if not isinstance(operation, ops.AppendBatch | ops.Append):
                continue
            content = self._in_log.get(operation.segment_id)
            segment = replayed.state.by_id.get(operation.segment_id)
            if content is None or segment is None:
                continue
            missing = segment.stored_length + len(content) - operation.offset
            if 0 <= missing < len(operation.data):
                content += operation.data[missing:]

    def pieces(self, segment: SegmentState) -> Iterator[tuple[int, memoryview]]:
        """Yield offset and bytes, without gaps, each valid until the next.

        Raises:
            DataCorruptionError: bytes are damaged or missing.
            OSError: a chunk cannot be read.
        """
        position = segment.start_offset
        for offset, data in self._stored(segment):
            if offset <= position < offset + len(data):
                yield position, data[position - offset :]
                position = offset + len(data)
        in_log = self._in_log.get(segment.segment_id, b"")
        if position < segment.durable_length:
            begin = position - segment.stored_length
            data = memoryview(in_log)[max(begin, 0) :]
            if begin < 0 or len(data) != segment.durable_length - position:
                raise DataCorruptionError(f"bytes of segment {segment.name!r} from {position} on are missing")
            yield position, data

    def _stored(self, segment: SegmentState) -> Iterator[tuple[int, memoryview]]:
        layout = load_layout(segment.storage_name, self._find_row)
        if layout is None:
            return
        for chunk, start in walk_chunks(layout, self._find_row):
            if start + chunk.length <= segment.start_offset:
                continue
            try:
                for offset, data in self._files.pieces(
                    chunk, self._find_row, max(0, segment.start_offset - start)
                ):
                    yield start + offset, data
            except (FileNotFoundError, StorageReadError) as error:  # rows name it with this length
                raise DataCorruptionError(
                    f"the chunk that holds segment {segment.name!r} from {start} on is missing or too short",
                    path=self._files.path(chunk.name),
                ) from error


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
    """Return the keys and values of a table. Raises as :func:`read_entries`."""
    found: dict[bytes, bytes] = {}
    for _, key, value in read_entries(contents, table):
        if value is None:
            found.pop(key, None)
        else:
            found[key] = value
    return found
