"""Answers where a stream was at a time, and where its last events begin, by calls."""

from __future__ import annotations

from headrace.client.config import ReaderConfig
from headrace.client.control.stream_times import StreamTimes, TimedCut
from headrace.client.reader.cuts import Cuts
from headrace.client.reader.segment_range import SegmentRangeReader
from headrace.client.segment_address import SegmentAddress
from headrace.client.segment_calls import SegmentCalls, SegmentInfo
from headrace.client.services import ClientServices
from headrace.model.stream_cut import StreamCut
from headrace.runtime.clock import SystemClock


class PlaceQuestions:
    """The questions about one stream. Used on one loop."""

    def __init__(
        self,
        scope: str,
        stream: str,
        services: ClientServices,
        calls: SegmentCalls,
        times: StreamTimes,
        config: ReaderConfig,
    ) -> None:
        self._scope = scope
        self._stream = stream
        self._services = services
        self._calls = calls
        self._times = times
        self._config = config

    async def cut_at(self, time_ms: int) -> TimedCut:
        """Return where the stream was at a time. Raises as :meth:`StreamTimes.cut_at`."""
        return await self._times.cut_at(self._scope, self._stream, time_ms)

    async def cut_ago(self, age_ms: int) -> TimedCut:
        """Return where the stream was so long ago. Raises as :meth:`StreamTimes.cut_at`."""
        return await self.cut_at(max(0, SystemClock().now_ms() - age_ms))

    async def find_last(self, wanted: int) -> tuple[StreamCut, StreamCut]:
        """Return the cut behind which the last events lie, and the tail; without segments if it is sealed.

        Raises:
            InvalidArgumentError: ``wanted`` is out of range, or the stream holds plain bytes.
            NoSuchStreamError: there is no such stream.
        """
        from headrace.client.reader.last_events import check_last, find_last  # imports numpy

        check_last(wanted)
        cuts = Cuts(self._services, self._calls, self._config)
        tail = await cuts.tail(self._scope, self._stream)
        head = await cuts.head(self._scope, self._stream)
        retained = await self._services.segments.between(self._scope, self._stream, head.offsets, {})
        ranges = await cuts.ranges(self._scope, self._stream, retained)
        return await find_last(wanted, tail, retained, ranges, self), tail

    async def info(self, segment_id: int) -> SegmentInfo:
        """Return the length of a segment and where it begins. Raises NoSuchSegmentError."""
        return await self._calls.info(self._address(segment_id))

    async def read(self, segment_id: int, begin: int, end: int) -> bytes:
        """Return the bytes of a segment between two offsets."""
        address = self._address(segment_id)
        async with SegmentRangeReader(address, begin, end, self._services, self._config) as part:
            return await part.read_all()

    def _address(self, segment_id: int) -> SegmentAddress:
        return SegmentAddress(self._scope, self._stream, segment_id)
