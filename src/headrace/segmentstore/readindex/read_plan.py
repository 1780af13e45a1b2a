"""What a read needs next, decided without touching anything: the cache, storage, a merge source, or time."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import Final, Generic, Protocol, Self, TypeVar

from headrace.errors import InvalidArgumentError, NoSuchSegmentError, SegmentTruncatedError
from headrace.limits import KIB, MIB, READ_BYTES_MAX
from headrace.segmentstore.readindex.redirects import Redirect, Redirects
from headrace.segmentstore.state.segment_state import SegmentState

STORAGE_READ_ALIGNMENT: Final = 64 * KIB
"""A single read from storage ends on a multiple of this."""
SEQUENTIAL_READ_ALIGNMENT: Final = 1 * MIB
"""A read by a sequential reader ends on a multiple of this."""


class PlannedIndex(Protocol):
    """What a plan needs of the index of a segment."""

    @property
    def state(self) -> SegmentState:
        """The state of the segment."""

    @property
    def redirects(self) -> Redirects[Self]:
        """The unfinished merges into the segment."""

    def covered_until(self, offset: int, limit: int) -> int:
        """Return the first offset from ``offset`` on which is not cached; looks no further than ``limit``."""

    def next_cached(self, offset: int, limit: int) -> int:
        """Return where the next entry or redirect after ``offset`` begins, at most ``limit``."""


Index = TypeVar("Index", bound=PlannedIndex)


class Need(Enum):
    """What a read needs."""

    CACHED = auto()
    """The bytes are in the cache."""
    STORAGE = auto()
    """The bytes are in long-term storage."""
    TAIL = auto()
    """The bytes do not exist yet."""
    CHANGE = auto()
    """The bytes exist, but their place is not known yet: a flush or the end of a merge will decide it."""


@dataclass(slots=True)
class ReadPlan(Generic[Index]):
    """``length`` bytes from ``offset`` of ``index``, which may be a merge source of the requested segment."""

    need: Need
    index: Index
    offset: int
    length: int
    redirect: Redirect[Index] | None = None
    """The unfinished merge through which ``index`` was reached."""


def check_read(segment: SegmentState, offset: int, length_max: int) -> None:
    """Refuse a read that can never be answered.

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


def plan_read(index: Index, offset: int, length_max: int) -> ReadPlan[Index]:
    """Decide what a valid read of at least one byte needs. It may get fewer than requested, never more."""
    redirect: Redirect[Index] | None = None
    length = min(length_max, index.state.durable_length - offset)
    if length <= 0:
        return ReadPlan(Need.TAIL, index, offset, 0)
    while True:  # a source was merged before its target was: this ends
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


def plan_storage_range(index: PlannedIndex, offset: int, length: int, *, sequential: bool) -> int:
    """Return where a storage read at ``offset`` for a reader of ``length`` bytes should end.

    It ends on an alignment boundary, or in front of bytes that are cached, redirected or unstored.
    """
    alignment = SEQUENTIAL_READ_ALIGNMENT if sequential else STORAGE_READ_ALIGNMENT
    end = -(-(offset + length) // alignment) * alignment
    return index.next_cached(offset, min(end, index.state.stored_length, offset + READ_BYTES_MAX))
