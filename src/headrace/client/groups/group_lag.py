"""How far a reader group is behind the tails of its streams. Pure.

What is read is known as of the last checkpoints, so it is never more than what is left.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from headrace.client.groups.checkpoint_state import Offsets
from headrace.client.groups.group_state import GroupState
from headrace.client.segment_address import SegmentAddress
from headrace.limits import INT64_MAX
from headrace.model.stream_cut import COMPLETED, StreamCut


@dataclass(frozen=True, slots=True)
class SegmentLag:
    """What of one segment is left."""

    segment: str
    """Its name: ``scope/stream/0.#epoch.0``."""
    stream: str
    """``scope/stream``"""
    reader: str | None
    """Which has it; None: no one yet."""
    offset: int
    length: int
    """To where it is to be read."""

    @property
    def bytes(self) -> int:
        return max(0, self.length - self.offset)


@dataclass(frozen=True, slots=True)
class GroupLag:
    """What a group has not read, as of the last checkpoints of its readers. Bytes have headers of events."""

    segments: tuple[SegmentLag, ...]
    age_s: Mapping[str, float | None] = field(default_factory=dict)
    """By stream, the age of what is read next, to about ten seconds: 0 if all is read, None: nobody knows."""

    @property
    def bytes(self) -> int:
        """Of all streams."""
        return sum(each.bytes for each in self.segments)

    def by_stream(self) -> dict[str, int]:
        """Return the bytes of each stream."""
        found: dict[str, int] = {}
        for each in self.segments:
            found[each.stream] = found.get(each.stream, 0) + each.bytes
        return found

    def by_reader(self) -> dict[str, int]:
        """Return the bytes in front of each reader that has segments."""
        found: dict[str, int] = {}
        for each in self.segments:
            if each.reader is not None:
                found[each.reader] = found.get(each.reader, 0) + each.bytes
        return found


def segment_lags(state: GroupState, following: Offsets, lengths: Offsets) -> tuple[SegmentLag, ...]:
    """Return the lags of the segments a group has to read.

    Args:
        state: of the group.
        following: segments behind those that the state has, all at 0.
        lengths: of all of them.
    """
    readers = {segment: reader for reader, owned in state.assigned.items() for segment in owned}
    places = {**following, **dict.fromkeys(state.future, 0), **state.offsets()}
    found = []
    for segment, offset in sorted(places.items(), key=lambda item: item[0].name):
        end = min(state.ends.get(segment, INT64_MAX), lengths.get(segment, 0))
        at = end if offset == COMPLETED else offset
        stream = f"{segment.scope}/{segment.stream}"
        found.append(SegmentLag(segment.name, stream, readers.get(segment), at, end))
    return tuple(found)


def has_read(cut: StreamCut, lags: tuple[SegmentLag, ...]) -> bool:
    """Whether everything in front of a cut of one stream was read."""
    places = {each.segment: each for each in lags}
    for segment_id, offset in cut.offsets.items():
        place = places.get(SegmentAddress(cut.scope, cut.stream, segment_id).name)
        if place is not None and place.bytes and offset > place.offset:
            return False
    return True
