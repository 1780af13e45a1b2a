"""The rows of long-term storage of a stopped container, read from its table of them."""

from __future__ import annotations

from headrace.errors import DataCorruptionError
from headrace.segmentstore.inspection.container_replay import ReplayedContainer
from headrace.segmentstore.inspection.segment_content import SegmentContents, read_table
from headrace.segmentstore.segment_names import storage_table_name
from headrace.storage.inspect import StoredChunks


def load_storage_table(replayed: ReplayedContainer, files: StoredChunks) -> None:
    """Add the rows in the table to ``replayed.archived_rows``, in another pass over the log if need be.

    Raises:
        SnapshotLostError: a running server has truncated the log since it was replayed: replay it again.
        DataCorruptionError: the table is damaged.
        OSError: a chunk of it, or the log, cannot be read.
    """
    table = replayed.state.by_name.get(storage_table_name(replayed.state.container_id))
    if table is None or not table.durable_length:
        return
    for key, row in read_table(SegmentContents(replayed, [table], files), table).items():
        try:
            replayed.archived_rows[key.decode("utf-8", "surrogatepass")] = row
        except UnicodeDecodeError as error:
            raise DataCorruptionError(f"the key {key.hex()} of the table is no key of a row") from error
