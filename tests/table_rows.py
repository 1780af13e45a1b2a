"""What the tables of a running container hold, read from their logs."""

from __future__ import annotations

from headrace.errors import SegmentTruncatedError
from headrace.segmentstore.container.container import SegmentContainer
from headrace.segmentstore.segment_names import storage_table_name
from headrace.segmentstore.tables.entry_format import REMOVAL
from headrace.segmentstore.tables.log import scan_log


async def storage_rows_of(container: SegmentContainer) -> dict[str, bytes]:
    """Return the rows of long-term storage of a container's segments, without those of its own."""
    segment = await container.resolve(storage_table_name(container.container_id))
    while True:
        rows: dict[str, bytes] = {}
        start = segment.start_offset
        try:
            async for entries, data in scan_log(container, segment, start, segment.durable_length):
                for _, _, key, length, _, value_at in entries:
                    if length == REMOVAL:
                        rows.pop(key.decode(), None)
                    else:
                        rows[key.decode()] = data[value_at : value_at + length]
            return rows
        except SegmentTruncatedError:
            assert segment.start_offset > start
