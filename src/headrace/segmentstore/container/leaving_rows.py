"""The rows of long-term storage that leave memory with their segment, and come back with it.

They go into the segment's row of the catalogue. A segment keeps them in memory, as if it were active, if they
would not fit there, or if it has chunks that were created for another segment: whose an object is must follow
from its name as long as no row in memory names it.
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


def find_leaving_rows(
    container: ContainerState, segment: SegmentState, bytes_max: int
) -> Mapping[str, bytes]:
    """Return the rows that may leave with a settled ``segment``; none if they have to stay or do not exist.

    They stay if they have more than ``bytes_max`` bytes. A damaged row stays where it is: who reads it finds
    it so. No row is looked at behind the one that decides.
    """
    rows: dict[str, bytes] = {}
    size = 0
    try:
        for key, row in walk_rows(segment.storage_name, container.storage_rows.get, _CHUNKS_MAX):
            size += len(key) + len(row)
            if size > bytes_max or not _is_own(segment, key):
                return {}
            rows[key] = row
    except DataCorruptionError:
        return {}
    return rows if are_current(container, rows) else {}


def _is_own(segment: SegmentState, key: str) -> bool:
    """Whether a row is no chunk's, or that of one that was created for ``segment``."""
    if not key.startswith(CHUNK_PREFIX):
        return True
    parsed = parse_chunk_name(key[len(CHUNK_PREFIX) :])
    return parsed is not None and parsed.segment == segment.storage_name


def are_current(container: ContainerState, rows: Mapping[str, bytes]) -> bool:
    """Whether nothing happened to these rows since they were found, and nothing is about to.

    Rows are replaced, never changed; and whatever happens to a segment replaces the first of its rows.
    """
    durable, accepted = container.storage_rows, container.accepted_storage_rows
    return all(durable.get(key) is row and accepted.get(key) is row for key, row in rows.items())
