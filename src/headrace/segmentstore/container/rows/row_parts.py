"""Which rows of long-term storage are in the log and which in the container's table of them.

The bytes of that table are stored themselves. If their rows were in it, storing them would append to it, and
so for ever. So the rows of the segments that a container keeps for itself are in the log and in checkpoints:
few, since these segments are few and tables are compacted. Segments of the two kinds are never merged, so
neither does a commit have rows of both.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from headrace.segmentstore.segment_names import is_internal, is_internal_chunk
from headrace.storage.metadata.rows import (
    CHECKSUM_PREFIX,
    CHUNK_PREFIX,
    GARBAGE_PREFIX,
    INCARNATION_KEY,
    NUMBERS_KEY,
    decode_garbage_row,
)

_PREFIX_CHARS = 2
"""Of all keys that are followed by the name of a segment or of a chunk."""


def is_in_log(key: str) -> bool:
    """Whether a row that is no garbage row is in the log."""
    name = key[_PREFIX_CHARS:]
    if key.startswith(CHUNK_PREFIX):
        return is_internal_chunk(name)
    if key.startswith(CHECKSUM_PREFIX):
        return is_internal_chunk(name.rpartition("/")[0])
    return is_internal(name) or key in {INCARNATION_KEY, NUMBERS_KEY}


def are_in_log(keys: Iterable[str]) -> bool:
    """Whether the rows of one commit are in the log. A garbage row is where the rows beside it are."""
    kinds = {is_in_log(key) for key in keys if not key.startswith(GARBAGE_PREFIX)}
    assert len(kinds) == 1, "rows of a container's own segments and of others change together"
    return kinds.pop()


def rows_of_table(rows: Mapping[str, bytes]) -> dict[str, bytes]:
    """Return those of the rows in the log of an earlier release that belong into the table.

    Raises:
        DataCorruptionError: a garbage row is damaged.
    """
    found: dict[str, bytes] = {}
    for key, row in rows.items():
        if key.startswith(GARBAGE_PREFIX):
            moves = not is_internal_chunk(decode_garbage_row(row, key).first_chunk)
        else:
            moves = not is_in_log(key)
        if moves:
            found[key] = row
    return found
