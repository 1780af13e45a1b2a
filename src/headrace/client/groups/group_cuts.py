"""Offsets of a group by segment as cuts by stream, and back. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from headrace.client.groups.checkpoint_state import Offsets
from headrace.client.segment_address import SegmentAddress
from headrace.limits import INT64_MAX
from headrace.model.stream_cut import COMPLETED, StreamCut


def to_cuts(offsets: Offsets) -> dict[str, StreamCut]:
    """Return a cut for each stream, by ``scope/stream``."""
    found: dict[tuple[str, str], dict[int, int]] = {}
    for segment, offset in offsets.items():
        found.setdefault((segment.scope, segment.stream), {})[segment.segment_id] = offset
    return {
        f"{scope}/{stream}": StreamCut.from_offsets(scope, stream, each)
        for (scope, stream), each in sorted(found.items())
    }


def to_offsets(cuts: Mapping[str, StreamCut]) -> dict[SegmentAddress, int]:
    """Return the offsets of bounded cuts."""
    return {
        SegmentAddress(cut.scope, cut.stream, segment_id): offset
        for cut in cuts.values()
        for segment_id, offset in cut.offsets.items()
    }


def to_ends(cuts: Mapping[str, StreamCut]) -> dict[SegmentAddress, int]:
    """Return where segments end for a group; one that is in a cut at -1 ends where it is sealed."""
    return {
        segment: INT64_MAX if offset == COMPLETED else offset for segment, offset in to_offsets(cuts).items()
    }
