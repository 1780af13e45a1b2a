"""Where groups begin and end in their streams, and how far they are: questions to controllers and stores."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace

from headrace.client.config import ReaderConfig
from headrace.client.control.stream_times import StreamTimes
from headrace.client.groups.checkpoint_state import Offsets
from headrace.client.groups.group_cuts import to_cuts, to_ends, to_offsets
from headrace.client.groups.group_lag import GroupLag, SegmentLag, has_read, segment_lags
from headrace.client.groups.group_state import GroupState
from headrace.client.groups.updates import StateInit
from headrace.client.reader.cuts import Cuts, Edge, belongs
from headrace.client.reader.read_part import Time, time_ms
from headrace.client.scoped_name import split_name
from headrace.client.segment_address import SegmentAddress
from headrace.client.segment_calls import SegmentCalls
from headrace.client.services import ClientServices
from headrace.errors import (
    InvalidArgumentError,
    NoSuchSegmentError,
    NoSuchStreamError,
    StreamSealedError,
    UnsupportedError,
)
from headrace.model.key_space import KeyRange, covers_key_space
from headrace.model.reader_group import ReaderGroupConfig
from headrace.model.stream_cut import COMPLETED, UNBOUNDED, StreamCut
from headrace.runtime.clock import Clock

Place = Edge | Time
"""A cut (or its text), ``"head"`` or ``"tail"``, or a time: a ``datetime``, ms since 1970, a ``timedelta``
(so long ago), or a text such as ``"1h"`` or ``"2026-11-25T10:00Z"``.
"""
_AGE_MS_MIN = 10_000
_AGE_STEPS = 24
_NARROWING_STEPS = 4


class GroupPlaces:
    """Used on one loop."""

    def __init__(
        self,
        services: ClientServices,
        calls: SegmentCalls,
        times: StreamTimes,
        config: ReaderConfig,
        clock: Clock,
    ) -> None:
        self._services = services
        self._calls = calls
        self._times = times
        self._clock = clock
        self._cuts = Cuts(services, calls, config)

    async def cuts(self, streams: Iterable[str], places: Place | Mapping[str, Place]) -> dict[str, StreamCut]:
        """Return the cuts of streams at one place, or at one for each.

        Raises:
            InvalidArgumentError: a place is none, or none of its stream.
            NoSuchStreamError, StreamSealedError: there is no such stream; nothing follows its tail.
        """
        names = list(streams)
        if isinstance(places, Mapping) and (missing := set(names) ^ set(places)):
            raise InvalidArgumentError(f"a place is wanted for each stream and for no other: {missing}")
        by_name = places if isinstance(places, Mapping) else dict.fromkeys(names, places)
        found = await asyncio.gather(
            *(self._cut(*split_name(each, "stream"), by_name[each]) for each in names)
        )
        return dict(zip(names, found, strict=True))

    async def _cut(self, scope: str, stream: str, place: Place) -> StreamCut:
        if isinstance(place, str) and place not in {"head", "tail"}:
            with suppress(InvalidArgumentError):
                place = StreamCut.from_text(place)
        if place == "head" or (isinstance(place, StreamCut) and place.is_unbounded):
            await self._services.segments.head(scope, stream)  # raises if there is no such stream
            return UNBOUNDED
        if place == "tail":
            tail = await self._cuts.tail(scope, stream)
            if not tail.offsets:
                raise StreamSealedError(f"stream {scope}/{stream} is sealed: nothing follows its tail")
            return tail
        if isinstance(place, StreamCut):
            await self._cuts.check(belongs(place, scope, stream))
            return place
        return (await self._times.cut_at(scope, stream, time_ms(place, self._clock.now_ms()))).cut

    async def begin(self, config: ReaderGroupConfig) -> StateInit:
        """Return how a group of this configuration begins. Raises NoSuchStreamError."""
        starts = dict(config.starts)
        for name, cut in config.starts.items():
            if cut.is_unbounded:
                starts[name] = await self._cuts.head(*split_name(name, "stream"))
        return StateInit(config, to_offsets(starts), to_ends(config.ends))

    async def real(self, offsets: Offsets, config: ReaderGroupConfig) -> dict[str, StreamCut]:
        """Return a cut per stream of a group, whose offsets lie in their segments, and that owns every key.

        A segment that was read to its end is at it. So is one that a group has forgotten because what follows
        it waits for another segment as well, or is behind the end of the group. A stream that was read to its
        seal is at its tail, which has no segments.
        """
        found = dict(offsets)
        ends = to_offsets(config.ends)
        for cut in to_cuts(offsets).values():
            ranges = await self._cuts.ranges(cut.scope, cut.stream, cut.offsets)
            if not covers_key_space(ranges.values()):
                found |= dict.fromkeys(await self._forgotten(cut), COMPLETED)
                found |= await self._ended(cut, ranges, ends)
        for segment in [each for each, offset in found.items() if offset == COMPLETED]:
            found[segment] = await self._length(segment, COMPLETED)
        cuts = to_cuts(found)
        for stream in config.starts:
            if stream not in cuts:
                end = config.ends.get(stream, UNBOUNDED)
                cuts[stream] = StreamCut(*split_name(stream, "stream")) if end.is_unbounded else end
        return cuts

    async def _ended(
        self, cut: StreamCut, ranges: Mapping[int, KeyRange], ends: Offsets
    ) -> dict[SegmentAddress, int]:
        """Return where a group ends in segments whose keys a cut does not have."""
        mine = {
            segment.segment_id: (segment, offset)
            for segment, offset in ends.items()
            if (segment.scope, segment.stream) == (cut.scope, cut.stream)
        }
        theirs = await self._cuts.ranges(cut.scope, cut.stream, mine)
        return dict(
            mine[each] for each, owned in theirs.items() if not any(map(owned.overlaps, ranges.values()))
        )

    async def _forgotten(self, cut: StreamCut) -> list[SegmentAddress]:
        """Return the segments whose successors wait for others that a cut has, or that follow it."""
        reached, waiting, parents = set(cut.offsets), list(cut.offsets), set[int]()
        while waiting:
            segment_id = waiting.pop()
            for each in await self._services.segments.successors(cut.scope, cut.stream, segment_id):
                parents.update(each.predecessors)
                if each.segment_id not in reached:
                    reached.add(each.segment_id)
                    waiting.append(each.segment_id)
        return [SegmentAddress(cut.scope, cut.stream, each) for each in sorted(parents - reached)]

    async def _length(self, segment: SegmentAddress, otherwise: int) -> int:
        try:
            return (await self._calls.info(segment)).length
        except NoSuchSegmentError:
            return otherwise  # it was truncated

    # ------------------------------------------------------------------------------ lag

    async def lag(self, state: GroupState) -> GroupLag:
        """Return what a group of this state has not read."""
        places = {**dict.fromkeys(state.future, 0), **state.offsets()}
        lengths: dict[SegmentAddress, int] = {}
        following: dict[SegmentAddress, int] = {}
        waiting = list(places)
        while waiting:
            segment = waiting.pop()
            lengths[segment], after = await self._look_at(segment, state)
            for each in after:
                if each not in lengths and each not in waiting and each not in places:
                    following[each] = 0
                    waiting.append(each)
        lags = segment_lags(state, following, lengths)
        streams = state.config.starts
        ages = await asyncio.gather(*(self._age_s(stream, lags) for stream in streams))
        return GroupLag(lags, dict(zip(streams, ages, strict=True)))

    async def _look_at(self, segment: SegmentAddress, state: GroupState) -> tuple[int, list[SegmentAddress]]:
        """Return the length of a segment and what follows it."""
        try:
            info = await self._calls.info(segment)
        except NoSuchSegmentError:
            length, sealed = 0, True
        else:
            length, sealed = info.length, info.sealed
        if not sealed or to_ends(state.config.ends).get(segment) is not None:
            return length, []
        try:
            after = await self._services.segments.successors(
                segment.scope, segment.stream, segment.segment_id
            )
        except (NoSuchSegmentError, NoSuchStreamError):
            return length, []  # the stream was deleted
        return length, [replace(segment, segment_id=each.segment_id) for each in after]

    async def _age_s(self, stream: str, lags: tuple[SegmentLag, ...]) -> float | None:
        """Return how old what is read next is: since when the stream was behind the group."""
        if not any(each.bytes for each in lags if each.stream == stream):
            return 0.0
        scope, name = split_name(stream, "stream")
        now = self._clock.now_ms()

        async def was_there(age_ms: int) -> bool:
            at = await self._times.cut_at(scope, name, max(0, now - age_ms))
            return at.is_head or has_read(at.cut, lags)

        try:
            read, unread = _AGE_MS_MIN, 0
            for _ in range(_AGE_STEPS):
                if await was_there(read):
                    break
                read, unread = min(2 * read, now), read
            for _ in range(_NARROWING_STEPS):
                if read - unread <= _AGE_MS_MIN:
                    break
                middle = (read + unread) // 2
                if await was_there(middle):
                    read = middle
                else:
                    unread = middle
        except (
            UnsupportedError,
            InvalidArgumentError,
        ):  # a controller of another kind; a clock that is ahead
            return None
        return read / 1000
