"""Which names segments may have: every one that is accepted can be stored, under any provider.

The log takes any name, long-term storage does not. A segment whose chunks cannot be named would be
acknowledged and never stored, and the log of its container never cut.
"""

from __future__ import annotations

from typing import Final

from headrace.errors import InvalidArgumentError
from headrace.limits import INT64_MAX
from headrace.model.names import primary_name, transaction_segment_name, transient_segment_name
from headrace.storage.chunks.chunk_names import CHUNK_MARKS_BYTES_MAX, segment_of
from headrace.storage.providers.contract import CHUNK_NAME_BYTES_MAX

INDEX_SUFFIX: Final = "$index"
"""The attribute index of a segment is stored under the segment's name in storage and this."""

SEGMENT_NAME_BYTES_MAX: Final = CHUNK_NAME_BYTES_MAX - len(f".{INT64_MAX:x}") - CHUNK_MARKS_BYTES_MAX
"""In UTF-8: what is left of the name of a chunk besides the segment's id and what a chunk adds."""

_NEW_NAME_BYTES_MAX: Final = SEGMENT_NAME_BYTES_MAX - len(INDEX_SUFFIX)

INTERNAL_PREFIX: Final = "_system/containers/"
"""Segments that containers keep for themselves; no client can name one."""


def storage_table_name(container_id: int) -> str:
    """Return the name of the table that has the rows of long-term storage of a container's segments."""
    return f"{INTERNAL_PREFIX}storage_metadata_{container_id}"


_MARK_BYTES_MAX: Final = max(
    len(transaction_segment_name("", 0)), len(transient_segment_name("", bytes(16), bytes(16)))
)

PRIMARY_NAME_BYTES_MAX: Final = _NEW_NAME_BYTES_MAX - _MARK_BYTES_MAX
"""Of a segment that is neither a transaction's nor a scratch segment: those are named after it."""


def is_index(storage_name: str) -> bool:
    """Whether a name in storage is that of an attribute index. Names of segments end with their id."""
    return storage_name.endswith(INDEX_SUFFIX)


def segment_id_of(storage_name: str) -> int:
    """Return the id of the segment to which a name in storage belongs. Raises: ValueError."""
    return int(storage_name.removesuffix(INDEX_SUFFIX).rpartition(".")[2], 16)


def is_internal(segment: str) -> bool:
    """Whether a container keeps this segment for itself."""
    return segment.startswith(INTERNAL_PREFIX)


def is_internal_chunk(name: str) -> bool:
    """Whether a chunk, of this release or an earlier one, was made for a segment of a container's own."""
    if is_internal(name):
        return True
    if not name.startswith(INTERNAL_PREFIX, name.find("/") + 1):
        return False  # nearly all: told without a search through the name
    return is_internal(segment_of(name))


def check_segment_name(segment: str) -> None:
    """Raise InvalidArgumentError for a name no client of the protocol would make, or storage not take."""
    if is_internal(segment):
        raise InvalidArgumentError(f"segment name {segment!r} is reserved")
    length = len(segment.encode("utf-8", "surrogatepass"))
    length_max = _NEW_NAME_BYTES_MAX
    if primary_name(segment) == segment:
        length_max = PRIMARY_NAME_BYTES_MAX
    if length > length_max:
        raise InvalidArgumentError(
            f"a segment name of {length} bytes in UTF-8 exceeds the limit of {length_max}"
        )
    if "\0" in segment or not all(segment.split("/")):
        raise InvalidArgumentError(
            f"illegal segment name of {len(segment)} characters: it, or a part between slashes, is empty, "
            "or it has a NUL"
        )
