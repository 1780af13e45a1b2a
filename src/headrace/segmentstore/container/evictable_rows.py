"""The rows of long-term storage that are evicted and activated with their segment.

They are copied into the segment's row of the catalogue. They stay in memory, as those of an active segment,
if they do not fit there, or if the segment has chunks that were created for another one: the segment of a
chunk has to follow from its name while no row in memory names it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from headrace.errors import DataCorruptionError
from headrace.segmentstore.state.container_state import ContainerState
from headrace.segmentstore.state.segment_state import SegmentState
from headrace.storage.chunks.chunk_names import parse_chunk_name
from headrace.storage.chunks.segment_rows import walk_rows
from headrace.storage.metadata.rows import CHUNK_PREFIX

_CHUNKS_MAX: Final = 1000
"""A segment with more chunks has too many rows for its row of the catalogue."""


def find_evictable_rows(
    container: ContainerState, segment: SegmentState, bytes_max: int
) -> Mapping[str, bytes]:
    """Return the rows to evict with a settled ``segment``; none if they have to stay or do not exist.

    They stay if they have more than ``bytes_max`` bytes, or if one is damaged, which its reader finds.
    No row is read behind the one that decides. Those of its attribute index are among them.
    """
    rows: dict[str, bytes] = {}
    size = 0
    try:
        for name in (segment.storage_name, segment.index_storage_name):
            for key, row in walk_rows(name, container.storage_rows.get, _CHUNKS_MAX):
                size += len(key) + len(row)
                if size > bytes_max or not _is_own(name, key):
                    return {}
                rows[key] = row
    except DataCorruptionError:
        return {}
    return rows if are_current(container, rows) else {}


def _is_own(name: str, key: str) -> bool:
    """Whether a row is not that of a chunk, or that of a chunk created for the segment of that name."""
    if not key.startswith(CHUNK_PREFIX):
        return True
    parsed = parse_chunk_name(key[len(CHUNK_PREFIX) :])
    return parsed is not None and parsed.segment == name


def are_current(container: ContainerState, rows: Mapping[str, bytes]) -> bool:
    """Whether these rows are unchanged since they were found, and no change is in flight.

    Rows are replaced, never changed; and every change of a segment replaces the first of its rows.
    """
    durable, accepted = container.storage_rows, container.accepted_storage_rows
    return all(durable.get(key) is row and accepted.get(key) is row for key, row in rows.items())
