"""The rows of one segment: all that are needed, together, to find its bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from headrace.errors import DataCorruptionError
from headrace.storage.chunks.segment_layout import load_chunk
from headrace.storage.metadata.rows import (
    checksum_key,
    chunk_key,
    decode_segment_row,
    full_group_count,
    segment_key,
)


def walk_rows(
    segment: str, get: Callable[[str], bytes | None], chunks_max: int | None = None
) -> Iterator[tuple[str, bytes]]:
    """Yield the rows of ``segment`` and of its chunks, with their keys; none if there is no such segment.

    None either if it has more than ``chunks_max`` chunks: their rows are not read then.

    Raises:
        DataCorruptionError: one is damaged or missing.
    """
    key = segment_key(segment)
    data = get(key)
    if data is None:
        return
    row = decode_segment_row(data, key)
    if chunks_max is not None and row.chunk_count > chunks_max:
        return
    yield key, data
    name = row.first_chunk
    for _ in range(row.chunk_count):
        chunk, following = load_chunk(name, get)
        keys = [chunk_key(name)]
        groups = range(full_group_count(chunk.length, chunk.block_bytes))
        keys += [checksum_key(name, group) for group in groups]
        for key in keys:
            data = get(key)
            if data is None:
                raise DataCorruptionError(f"row {key!r} is missing")
            yield key, data
        name = following
