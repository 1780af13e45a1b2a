"""Which segments a stream has, what follows them, and which host owns them."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Final

from headrace.client.control.controller import Controller
from headrace.client.segment_address import SegmentAddress
from headrace.client.segment_map import SegmentRange, Successor
from headrace.errors import (
    ConnectionLostError,
    NoSuchSegmentError,
    NoSuchStreamError,
    PermissionDeniedError,
)
from headrace.model.endpoint import Endpoint
from headrace.model.names import segment_name
from headrace.model.segment_id import epoch_of, segment_id_text
from headrace.rpc import convert
from headrace.rpc.generated import controller_pb2 as pb

_ENDPOINTS_MAX: Final = 4096
_ENDPOINT_AGE_MAX_S: Final = 300.0
_IS_GONE_S: Final = 5.0


class Segments:
    """Questions about segments, and the memory of where they live. Used on one loop."""

    def __init__(self, controller: Controller) -> None:
        self._controller = controller
        self._endpoints: OrderedDict[tuple[str, str, int], tuple[Endpoint, float]] = OrderedDict()
        self._asked = 0

    async def current(self, scope: str, stream: str) -> list[SegmentRange]:
        """Return the segments that take events now, none if the stream is sealed.

        Raises:
            NoSuchStreamError: there is no such stream.
        """
        reply = await self._controller.call("getCurrentSegments", _looked_at(scope, stream))
        return [SegmentRange(*convert.segment_range_from_message(each)) for each in reply.segmentRanges]

    async def of_epoch(self, scope: str, stream: str, epoch: int) -> list[SegmentRange]:
        """Return the segments of one epoch. Raises NoSuchStreamError, also without such an epoch."""
        request = pb.GetEpochSegmentsRequest(streamInfo=_looked_at(scope, stream), epoch=epoch)
        try:
            reply = await self._controller.call("getEpochSegments", request)
        except NoSuchSegmentError as error:  # of a controller of ours: others do not say what is missing
            raise NoSuchStreamError(str(error)) from None
        return [SegmentRange(*convert.segment_range_from_message(each)) for each in reply.segmentRanges]

    async def head(self, scope: str, stream: str) -> dict[int, int]:
        """Return the first segments with the offsets at which they begin. Raises NoSuchStreamError."""
        request = pb.GetSegmentsRequest(streamInfo=_looked_at(scope, stream), timestamp=0)
        reply = await self._controller.call("getSegments", request)
        return {each.segmentId.segmentId: each.offset for each in reply.segments}

    async def successors(self, scope: str, stream: str, segment_id: int) -> list[Successor]:
        """Return what continues a sealed segment; nothing if the stream ends there.

        Raises:
            NoSuchStreamError: there is no such stream.
            NoSuchSegmentError: the stream never had the segment. The protocol answers this like the end of a
                stream, so an answer without successors is followed by a second question.
        """
        request = convert.segment_id_to_message(scope, stream, segment_id)
        reply = await self._controller.call("getSegmentsImmediatelyFollowing", request)
        if not reply.segments and not await self._existed(scope, stream, segment_id):
            raise NoSuchSegmentError(
                segment_name(scope, stream, segment_id),
                f"stream {scope}/{stream} never had segment {segment_id_text(segment_id)}: the stream was "
                "deleted and created anew, or the position is one of another stream",
            )
        return [
            Successor(*convert.segment_range_from_message(each.segment), tuple(each.value))
            for each in reply.segments
        ]

    async def _existed(self, scope: str, stream: str, segment_id: int) -> bool:
        """Tell whether a segment is or was one of a stream that exists."""
        try:
            epoch = await self.of_epoch(scope, stream, epoch_of(segment_id))
        except NoSuchStreamError:  # it exists, so it is the epoch that does not
            return False
        except PermissionDeniedError:  # some controllers show this to who may write only
            return True
        return any(each.segment_id == segment_id for each in epoch)

    async def between(
        self, scope: str, stream: str, start: Mapping[int, int], end: Mapping[int, int]
    ) -> list[int]:
        """Return the segments that have events between two cuts, oldest first; an empty end is unbounded."""
        request = pb.StreamCutRange(streamInfo=convert.stream_info(scope, stream), to=end)
        getattr(request, "from").update(start)
        reply = await self._controller.call("getSegmentsBetween", request)
        return sorted(each.segmentId for each in reply.segments)

    # ------------------------------------------------------------------------------ placement

    async def endpoint(self, scope: str, stream: str, segment_id: int) -> Endpoint:
        """Return host and port of the segment store that owns the segment, possibly from memory."""
        key = (scope, stream, segment_id)
        loop = asyncio.get_running_loop()
        known = self._endpoints.get(key)
        if known is not None and loop.time() - known[1] < _ENDPOINT_AGE_MAX_S:
            self._endpoints.move_to_end(key)
            return known[0]
        return await self._ask_endpoint(key, attempts=3)

    async def _ask_endpoint(
        self, key: tuple[str, str, int], *, attempts: int, timeout_s: float | None = None
    ) -> Endpoint:
        scope, stream, segment_id = key
        reply = await self._controller.call(
            "getURI", convert.segment_id_to_message(*key), attempts=attempts, timeout_s=timeout_s
        )
        if not reply.endpoint or not 0 < reply.port <= 65535:
            raise ConnectionLostError(
                f"segment {segment_id_text(segment_id)} of {scope}/{stream} has no owner at the moment"
            )
        endpoint = convert.endpoint_from_message(reply)
        self._endpoints[key] = (endpoint, asyncio.get_running_loop().time())
        if len(self._endpoints) > _ENDPOINTS_MAX:
            self._endpoints.popitem(last=False)
        return endpoint

    async def is_gone(self, endpoint: Endpoint, addresses: Sequence[SegmentAddress]) -> bool:
        """Ask for one of these segments whether its owner is elsewhere now; each time for another one.

        Raises:
            HeadraceError: the controller does not say.
        """
        if not addresses:
            return False
        self._asked += 1
        address = addresses[self._asked % len(addresses)]
        key = (address.scope, address.stream, address.segment_id)
        return await self._ask_endpoint(key, attempts=1, timeout_s=_IS_GONE_S) != endpoint

    def forget_endpoint(self, scope: str, stream: str, segment_id: int) -> None:
        """Ask again next time: the host did not answer, or said that it is not the owner."""
        self._endpoints.pop((scope, stream, segment_id), None)


def _looked_at(scope: str, stream: str) -> pb.StreamInfo:
    """Name a stream in questions whose answers need no token: permission to read is enough for them."""
    return pb.StreamInfo(scope=scope, stream=stream, accessOperation=pb.StreamInfo.NONE)
