"""Calls about the segments of streams, and cuts through them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime

from headrace.client.control.stream_times import TimedCut
from headrace.client.face.core import ClientCore
from headrace.client.scoped_name import named
from headrace.client.segment_address import SegmentAddress
from headrace.client.segment_calls import SegmentInfo
from headrace.client.segment_map import SegmentRange, Successor
from headrace.model.key_space import KeyRange
from headrace.model.stream_cut import StreamCut


class CutFace(ClientCore):
    """Segments and cuts."""

    @named
    async def current_segments(self, scope: str, stream: str) -> list[SegmentRange]:
        """Return the segments that take events now; none if the stream is sealed."""
        return await self._services.segments.current(scope, stream)

    @named
    async def successors(self, scope: str, stream: str, segment_id: int) -> list[Successor]:
        """Return what continues a sealed segment; nothing if the stream ends there.

        Raises:
            NoSuchSegmentError: the stream never had the segment.
        """
        return await self._services.segments.successors(scope, stream, segment_id)

    async def segments_between(
        self,
        start: StreamCut | Mapping[int, int],
        end: StreamCut | None = None,
        *,
        scope: str = "",
        stream: str = "",
    ) -> list[int]:
        """Return the segments that have events between two cuts, oldest first.

        Args:
            start: a cut, or offsets (then ``scope`` and ``stream`` are needed); unbounded is the head.
            end: a cut; None is the present tail.
            scope: of the stream, unless a cut contains it.
            stream: its name, unless a cut contains it.
        """
        for cut in (start, end):
            if isinstance(cut, StreamCut) and not cut.is_unbounded:
                scope, stream = cut.scope, cut.stream
        first = start.offsets if isinstance(start, StreamCut) else start
        if not first:
            first = (await self._cuts.head(scope, stream)).offsets
        last = {} if end is None else end.offsets
        return await self._services.segments.between(scope, stream, first, last)

    @named
    async def key_ranges(self, scope: str, stream: str, segment_ids: Iterable[int]) -> dict[int, KeyRange]:
        """Return the key ranges of segments, sealed ones included, without those the stream never had."""
        return await self._cuts.ranges(scope, stream, segment_ids)

    @named
    async def head_cut(self, scope: str, stream: str) -> StreamCut:
        """Return the cut at which the stream begins. Raises NoSuchStreamError."""
        return await self._cuts.head(scope, stream)

    @named
    async def tail_cut(self, scope: str, stream: str) -> StreamCut:
        """Return the cut behind the last durable event; without segments if the stream is sealed."""
        return await self._cuts.tail(scope, stream)

    @named
    async def cut_at(self, scope: str, stream: str, time: datetime | int) -> TimedCut:
        """Return where a stream was at a time: everything acknowledged after it lies at or behind the cut.

        Args:
            scope: of the stream.
            stream: its name.
            time: a ``datetime`` (of the local zone if it names none), or milliseconds since 1970.

        Raises:
            NoSuchStreamError: there is no such stream.
            InvalidArgumentError: the time is in the future, or so early that no stream was there.
        """
        return await self._times.cut_at(scope, stream, time)

    async def check_cut(self, cut: StreamCut) -> None:
        """Check that a bounded cut is a position of the present stream, whether truncated or not.

        Raises:
            NoSuchStreamError: there is no such stream.
            InvalidArgumentError: the stream never had a segment of the cut, its segments do not own every key
                once, an offset is behind the tail, or lies inside an event.
        """
        await self._cuts.check(cut)

    @named
    async def segment_info(self, scope: str, stream: str, segment_id: int) -> SegmentInfo:
        """Return start, length and seal of a segment. Raises NoSuchSegmentError."""
        return await self._calls.info(SegmentAddress(scope, stream, segment_id))

    @named
    async def locate_offset(self, scope: str, stream: str, segment_id: int, target_offset: int) -> int:
        """Return an event boundary at or after an offset; the segment's length if the server knows none."""
        return await self._calls.locate_offset(SegmentAddress(scope, stream, segment_id), target_offset)
