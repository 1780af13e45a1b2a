"""Finds out where streams begin and end, and what a wanted start or end means in offsets."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Final

from headrace.client.config import ReaderConfig
from headrace.client.reader.cut_check import PROBE_BYTES, begins_event, check_cover, check_known
from headrace.client.reader.segment_range import SegmentRangeReader
from headrace.client.segment_address import SegmentAddress
from headrace.client.segment_calls import SegmentCalls, SegmentInfo
from headrace.client.services import ClientServices
from headrace.errors import InvalidArgumentError, NoSuchSegmentError, NoSuchStreamError, SegmentTruncatedError
from headrace.model.key_space import KeyRange
from headrace.model.segment_id import epoch_of, segment_id_text
from headrace.model.stream_cut import StreamCut

_TAIL_ATTEMPTS: Final = 3

Edge = StreamCut | str
"""A cut, the text of one, or ``"head"`` or ``"tail"``, which have to be looked up."""


def last_of(end: Edge | None, follow: bool, until: object = None) -> Edge | None:
    """Return where to stop reading; None is never.

    Raises:
        InvalidArgumentError: something is to be followed beyond a given end.
    """
    if follow and (until is not None or (end is not None and end != "tail")):
        raise InvalidArgumentError("follow goes on behind the tail: it takes no other end")
    return None if follow else end


def parse_edge(edge: Edge) -> Edge:
    """Return a text that is no name as the cut that it says. Raises InvalidArgumentError: it says none."""
    if not isinstance(edge, StreamCut | str):
        raise InvalidArgumentError(f"a stream cut, its text, 'head' or 'tail' is wanted, not {edge!r:.100}")
    return StreamCut.from_text(edge) if isinstance(edge, str) and edge not in {"head", "tail"} else edge


class Cuts:
    """Head and tail of streams. Used on one loop."""

    def __init__(self, services: ClientServices, calls: SegmentCalls, config: ReaderConfig) -> None:
        self._services = services
        self._calls = calls
        self._config = config

    async def head(self, scope: str, stream: str) -> StreamCut:
        """Return the cut in front of which everything was truncated. Raises NoSuchStreamError."""
        return StreamCut.from_offsets(scope, stream, await self._services.segments.head(scope, stream))

    async def tail(self, scope: str, stream: str) -> StreamCut:
        """Return the lengths of the current segments; no segments at all if the stream is sealed.

        Raises:
            NoSuchStreamError: there is no such stream.
        """
        attempt = 1
        while True:
            current = await self._services.segments.current(scope, stream)
            addresses = [SegmentAddress(scope, stream, each.segment_id) for each in current]
            try:
                infos = await asyncio.gather(*(self._calls.info(address) for address in addresses))
            except NoSuchSegmentError:
                if attempt == _TAIL_ATTEMPTS:
                    raise
                attempt += 1  # since it was listed it was replaced and truncated, or the stream created anew
            else:
                return StreamCut.from_offsets(scope, stream, {each.segment_id: each.length for each in infos})

    async def start(self, scope: str, stream: str, edge: Edge) -> StreamCut:
        """Return the cut to start from; the unbounded one is the head."""
        if edge == "tail":
            return await self.tail(scope, stream)
        if isinstance(edge, str) or edge.is_unbounded:
            return await self.head(scope, stream)
        return belongs(edge, scope, stream)

    async def end(self, scope: str, stream: str, edge: Edge | None) -> StreamCut | None:
        """Return the cut to stop at; None (or the unbounded one) means never."""
        if edge is None:
            return None
        if edge == "tail":
            return await self.tail(scope, stream)
        if isinstance(edge, str):
            return await self.head(scope, stream)
        return None if edge.is_unbounded else belongs(edge, scope, stream)

    async def ranges(self, scope: str, stream: str, segment_ids: Iterable[int]) -> dict[int, KeyRange]:
        """Return the key ranges of segments, from the epochs that created them, without those that the
        stream never had.

        Raises:
            NoSuchStreamError: there is no such stream.
        """
        wanted = set(segment_ids)
        known: dict[int, KeyRange] = {}
        for epoch in sorted({epoch_of(segment_id) for segment_id in wanted}):
            try:
                segments = await self._services.segments.of_epoch(scope, stream, epoch)
            except NoSuchStreamError:
                await self._services.segments.head(scope, stream)  # raises if it is not only the epoch
                continue
            for each in segments:
                if each.segment_id in wanted:
                    known[each.segment_id] = each.key_range
        return known

    async def check(self, cut: StreamCut, ranges: Mapping[int, KeyRange] | None = None) -> None:
        """Check that a cut is a position of the present stream. What was truncated counts as present.

        One call per segment, and a small read where the cut is neither at the head nor at the tail.

        Args:
            cut: bounded; without segments it is the tail of a sealed stream.
            ranges: what :meth:`ranges` returns for it, if that is known.

        Raises:
            NoSuchStreamError: there is no such stream.
            InvalidArgumentError: the stream never had a segment of the cut, its segments do not own every key
                once, an offset is behind the tail, or lies inside an event.
        """
        if not cut.offsets:
            return
        if ranges is None:
            ranges = await self.ranges(cut.scope, cut.stream, cut.offsets)
        check_known(cut, ranges)
        check_cover(cut, ranges)
        await self._check_places(cut, allow_bytes=False)

    async def check_truncation(self, cut: StreamCut) -> None:
        """Check that a reader can begin at a cut that a stream will be truncated to.

        Segments that do not begin with an event hold plain bytes and may be truncated anywhere.

        Raises:
            NoSuchStreamError: there is no such stream.
            InvalidArgumentError: the stream never had a segment of the cut, an offset is behind the tail, or
                lies inside an event.
        """
        check_known(cut, await self.ranges(cut.scope, cut.stream, cut.offsets))
        await self._check_places(cut, allow_bytes=True)

    async def _check_places(self, cut: StreamCut, *, allow_bytes: bool) -> None:
        places = [
            self._check_place(SegmentAddress(cut.scope, cut.stream, segment_id), offset, allow_bytes)
            for segment_id, offset in cut.offsets.items()
            if offset > 0
        ]
        await asyncio.gather(*places)

    async def _check_place(self, address: SegmentAddress, offset: int, allow_bytes: bool) -> None:
        try:
            info = await self._calls.info(address)
        except NoSuchSegmentError:
            return  # truncated, which whoever reads or truncates deals with
        what = f"segment {segment_id_text(address.segment_id)} of {address.scope}/{address.stream}"
        if offset > info.length:
            raise InvalidArgumentError(f"the cut is at {offset} of {what}, which ends at {info.length}")
        if not info.start_offset < offset < info.length or await self._begins_event(address, offset, info):
            return
        if allow_bytes and not await self._begins_event(address, info.start_offset, info):
            return
        raise InvalidArgumentError(
            f"no event begins at {offset} of {what}: the cut lies inside an event, or the bytes behind it "
            "are damaged" + ("; any_offset truncates a stream of plain bytes there" if allow_bytes else "")
        )

    async def _begins_event(self, address: SegmentAddress, offset: int, info: SegmentInfo) -> bool:
        end = min(info.length, offset + PROBE_BYTES)
        try:
            async with SegmentRangeReader(address, offset, end, self._services, self._config) as part:
                return begins_event(await part.read_all(), info.length - offset)
        except (SegmentTruncatedError, NoSuchSegmentError):
            return True  # not there any more


def belongs(cut: StreamCut, scope: str, stream: str) -> StreamCut:
    """Return a cut of a stream. Raises InvalidArgumentError: it is one of another."""
    if (cut.scope, cut.stream) != (scope, stream):
        raise InvalidArgumentError(f"{cut} is no cut of {scope}/{stream}")
    return cut
