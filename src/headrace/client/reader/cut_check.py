"""Whether a cut is a position of a stream, and whether an event begins where it says so. Pure.

The server knows no events, so a place inside an event is found out by its bytes: they give no series of event
headers, or one that ends behind the segment.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from struct import Struct
from typing import Final

from headrace.client.framing.event_framing import find_frames
from headrace.client.reader.stream_walk import is_future
from headrace.errors import DataCorruptionError, InvalidArgumentError
from headrace.limits import EVENT_HEADER_BYTES, KIB
from headrace.model.key_space import FULL_RANGE, KeyRange, any_overlap
from headrace.model.stream_cut import StreamCut

PROBE_BYTES: Final = 4 * KIB
"""Bytes behind a place that are looked at."""

_LENGTH: Final = Struct(">q")


def check_known(cut: StreamCut, ranges: Mapping[int, KeyRange]) -> None:
    """Check that the stream has or had all segments of a cut; ``ranges`` are the key ranges of those.

    Raises:
        InvalidArgumentError: it never had one of them.
    """
    strange = sorted(cut.offsets.keys() - ranges.keys())
    if strange:
        raise InvalidArgumentError(
            f"the cut names segments {strange}, which stream {cut.scoped_stream} never had: it may be a cut "
            "of a stream of that name that was deleted"
        )


def check_cover(cut: StreamCut, ranges: Mapping[int, KeyRange]) -> None:
    """Check that the segments of a cut own every key, and only one of them does, apart from those that are
    not reached yet.

    Raises:
        InvalidArgumentError: they do not.
    """
    reached = [ranges[each] for each in cut.offsets if not is_future(each, cut.offsets, ranges)]
    if any_overlap(reached) or not _covers(ranges[each] for each in cut.offsets):
        raise InvalidArgumentError(
            f"the cut is no position of stream {cut.scoped_stream}: its segments {sorted(cut.offsets)} do "
            "not own every key exactly once"
        )


def _covers(ranges: Iterable[KeyRange]) -> bool:
    """Tell whether ranges, which may overlap, leave no gap."""
    edge = FULL_RANGE.low
    for each in sorted(ranges):
        if each.low > edge:
            return False
        edge = max(edge, each.high)
    return edge == FULL_RANGE.high


def begins_event(data: bytes, rest_bytes: int) -> bool:
    """Tell whether an event may begin where ``data`` was read.

    Args:
        data: the first bytes, up to :data:`PROBE_BYTES`.
        rest_bytes: what the segment has from that place on; events end where it ends.
    """
    try:
        end = int(find_frames(data)[-1])
    except DataCorruptionError:
        return False
    if len(data) - end >= EVENT_HEADER_BYTES:
        return end + EVENT_HEADER_BYTES + int(_LENGTH.unpack_from(data, end)[0]) <= rest_bytes
    return end == rest_bytes or end + EVENT_HEADER_BYTES <= rest_bytes
