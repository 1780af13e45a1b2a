"""What a read needs next, decided without touching anything: the cache, storage, a merge source, or time."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING, Final

from headrace.errors import InvalidArgumentError, NoSuchSegmentError, SegmentTruncatedError
from headrace.limits import KIB, MIB, READ_BYTES_MAX

if TYPE_CHECKING:
    from headrace.segmentstore.readindex.redirects import Redirect
    from headrace.segmentstore.readindex.segment_index import SegmentIndex
    from headrace.segmentstore.state.segment_state import SegmentState

STORAGE_READ_ALIGNMENT: Final = 64 * KIB
"""A single read from storage ends on a multiple of this."""
SEQUENTIAL_READ_ALIGNMENT: Final = 1 * MIB
"""A read by somebody who reads on and on ends on a multiple of this."""


class Need(Enum):
    """What a read needs."""

    CACHED = auto()
    """The bytes are in the cache."""
    STORAGE = auto()
    """The bytes are in long-term storage."""
    TAIL = auto()
    """The bytes do not exist yet."""
    CHANGE = auto()
    """The bytes exist, but we do not know where yet: the storage writer or a merge will tell."""


@dataclass(slots=True)
class ReadPlan:
    """``length`` bytes from ``offset`` of ``index``, which may be a merge source of the segment asked for."""

    need: Need
    index: SegmentIndex
    offset: int
    length: int
    redirect: Redirect | None = None
    """The merge under way through which ``index`` was reached."""


def check_read(segment: SegmentState, offset: int, length_max: int) -> None:
    """Refuse what can never be answered.

    Raises:
        SegmentTruncatedError: ``offset`` is below the start offset.
        NoSuchSegmentError: the segment was deleted or merged away.
        InvalidArgumentError: negative argument, or an offset beyond the end of a sealed segment.
    """
    if segment.deleted or segment.merged:
        raise NoSuchSegmentError(segment.name)
    if offset < 0 or length_max < 0:
        raise InvalidArgumentError(f"cannot read {length_max} bytes at {offset}")
    if offset < segment.start_offset:
        raise SegmentTruncatedError(segment.name, segment.start_offset, offset)
    if segment.sealed and offset > segment.durable_length:
        raise InvalidArgumentError(
            f"segment {segment.name!r} is sealed at {segment.durable_length}; {offset} will never exist"
        )


def plan_read(index: SegmentIndex, offset: int, length_max: int) -> ReadPlan:
    """Decide what a valid read of at least one byte needs. It may get less than it asked for, never more."""
    redirect: Redirect | None = None
    length = min(length_max, index.state.durable_length - offset)
    if length <= 0:
        return ReadPlan(Need.TAIL, index, offset, 0)
    while True:  # a source was merged before whatever it lies in: there is an end
        covered = index.covered_until(offset, offset + length)
        if covered > offset:
            return ReadPlan(Need.CACHED, index, offset, min(length, covered - offset), redirect)
        found = index.redirects.find(offset)
        if found is None or found.end <= index.state.stored_length:
            break
        redirect = found
        length = min(length, found.end - offset)
        offset -= found.offset
        index = found.source
    stored = index.state.stored_length
    if offset >= stored:
        return ReadPlan(Need.CHANGE, index, offset, length, redirect)
    return ReadPlan(Need.STORAGE, index, offset, min(length, stored - offset), redirect)


def plan_storage_range(index: SegmentIndex, offset: int, length: int, *, sequential: bool) -> int:
    """Return where a storage read from ``offset`` for somebody who wants ``length`` bytes should end.

    It goes on to an alignment boundary, but not into bytes which are cached, redirected or not stored.
    """
    alignment = SEQUENTIAL_READ_ALIGNMENT if sequential else STORAGE_READ_ALIGNMENT
    end = -(-(offset + length) // alignment) * alignment
    return index.next_cached(offset, min(end, index.state.stored_length, offset + READ_BYTES_MAX))
