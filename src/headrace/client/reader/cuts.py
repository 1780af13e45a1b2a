"""Finds out where streams begin and end, and what a wanted start or end means in offsets."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Literal

from headrace.client.segment_calls import SegmentCalls
from headrace.client.services import ClientServices, SegmentAddress
from headrace.errors import InvalidArgumentError
from headrace.model.key_space import KeyRange
from headrace.model.segment_id import epoch_of
from headrace.model.stream_cut import StreamCut

Edge = StreamCut | Literal["head", "tail"]
"""A cut, or a name for one that has to be looked up."""


class Cuts:
    """Head and tail of streams. Used on one loop."""

    def __init__(self, services: ClientServices, calls: SegmentCalls) -> None:
        self._services = services
        self._calls = calls

    async def head(self, scope: str, stream: str) -> StreamCut:
        """Return the cut in front of which everything was truncated. Raises NoSuchStreamError."""
        return StreamCut.from_offsets(scope, stream, await self._services.segments.head(scope, stream))

    async def tail(self, scope: str, stream: str) -> StreamCut:
        """Return the lengths of the current segments; no segments at all if the stream is sealed."""
        current = await self._services.segments.current(scope, stream)
        ids = [each.segment_id for each in current]
        addresses = [SegmentAddress(scope, stream, segment_id) for segment_id in ids]
        infos = await asyncio.gather(*(self._calls.info(address) for address in addresses))
        offsets = {info.segment_id: info.length for info in infos}
        return StreamCut.from_offsets(scope, stream, offsets)

    async def start(self, scope: str, stream: str, edge: Edge) -> StreamCut:
        """Return the cut to start from; the unbounded one is the head."""
        if edge == "tail":
            return await self.tail(scope, stream)
        if isinstance(edge, str) or edge.is_unbounded:
            return await self.head(scope, stream)
        return _belongs(edge, scope, stream)

    async def end(self, scope: str, stream: str, edge: Edge | None) -> StreamCut | None:
        """Return the cut to stop at; None (or the unbounded one) means never."""
        if edge is None:
            return None
        if edge == "tail":
            return await self.tail(scope, stream)
        if isinstance(edge, str):
            return await self.head(scope, stream)
        return None if edge.is_unbounded else _belongs(edge, scope, stream)

    async def ranges(self, scope: str, stream: str, segment_ids: Iterable[int]) -> dict[int, KeyRange]:
        """Return the key ranges of segments, from the epochs that created them."""
        wanted = set(segment_ids)
        known: dict[int, KeyRange] = {}
        for epoch in sorted({epoch_of(segment_id) for segment_id in wanted}):
            for each in await self._services.segments.of_epoch(scope, stream, epoch):
                if each.segment_id in wanted:
                    known[each.segment_id] = each.key_range
        return known


def _belongs(cut: StreamCut, scope: str, stream: str) -> StreamCut:
    if (cut.scope, cut.stream) != (scope, stream):
        raise InvalidArgumentError(f"{cut} is no cut of {scope}/{stream}")
    return cut
