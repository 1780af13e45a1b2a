"""Up to which time a stream is complete at a position: what its watermarks say to a reader.

A watermark lies behind a position as long as the position has not reached all of its cut. The lower bound of
a window is the lower time of the last watermark that the position has passed; the upper bound is the upper
time of the first one ahead.

Source: protocol, "Reader side: time windows".
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass
from typing import Final

from headrace.client.config import ReaderConfig
from headrace.client.description import described
from headrace.client.forks import OfOneProcess
from headrace.client.reader.cuts import Cuts
from headrace.client.reader.segment_range import SegmentRangeReader
from headrace.client.segment_address import SegmentAddress
from headrace.client.segment_calls import SegmentCalls
from headrace.client.services import ClientServices
from headrace.errors import InvalidArgumentError, SegmentTruncatedError
from headrace.model.key_space import KeyRange
from headrace.model.names import MARK_PREFIX
from headrace.model.stream_cut import StreamCut
from headrace.model.watermark import Watermark, decode_watermark

_RANGES_MAX: Final = 10_000
_PLACES_MAX: Final = 100_000
"""Of all cuts of the watermarks that a position has not passed."""


@dataclass(frozen=True, slots=True)
class TimeWindow:
    """Events behind a position are not older than ``lower``; None: not known, near the head.

    Writers had spoken of ``upper`` at most where a little more is read; None: not known, near the tail.
    """

    lower: int | None
    upper: int | None


def compare(position: Mapping[int, int], ranges: Mapping[int, KeyRange], watermark: Watermark) -> int:
    """Return whether a position is in front of a watermark (-1), has passed it (1), or partly each (0). Pure.

    Args:
        position: offsets by segment; -1 means that the segment was read to its end.
        ranges: of its segments; one that is unknown may be anywhere.
        watermark: what it is compared with.
    """
    marked = watermark.offsets()
    behind = ahead = False
    for segment_id, offset in position.items():
        if segment_id in marked:
            mine = offset if offset >= 0 else marked[segment_id] + 1
            behind |= mine < marked[segment_id]
            ahead |= mine > marked[segment_id]
            continue
        key_range = ranges.get(segment_id)
        for each in watermark.cut:
            if key_range is None or key_range.overlaps(each.key_range):
                behind |= segment_id < each.segment_id
                ahead |= segment_id > each.segment_id
    return 0 if behind and ahead else -1 if behind else 1


class MarkReader:
    """Reads the watermarks of a stream that there are, and later those that were added. Used on one loop."""

    def __init__(
        self, scope: str, stream: str, services: ClientServices, calls: SegmentCalls, config: ReaderConfig
    ) -> None:
        self.scope = scope
        self.stream = stream
        self.uri = services.uri
        self._services = services
        self._calls = calls
        self._config = config
        self._address: SegmentAddress | None = None
        self._offset = 0
        self._reading: AsyncGenerator[Watermark, None] | None = None

    async def next(self) -> Watermark | None:
        """Return the watermark that follows those read before; None at the present end. Cancelling it loses
        none. Raises as :meth:`read`.
        """
        reading, self._reading = self._reading or self.read(), None
        watermark = await anext(reading, None)  # an error ends it, and another one goes on
        if watermark is not None:
            self._reading = reading
        return watermark

    async def read(self) -> AsyncGenerator[Watermark, None]:
        """Yield the watermarks that follow those read before, up to the present end.

        What is dropped meanwhile is left out.

        Raises:
            NoSuchStreamError: there is no such stream, or it has no watermarks.
            DataCorruptionError: its mark stream holds something else.
        """
        address = self._address
        if address is None:
            name = MARK_PREFIX + self.stream
            head = await self._services.segments.head(self.scope, name)
            address = self._address = SegmentAddress(self.scope, name, min(head))
        while True:
            info = await self._calls.info(address)
            self._offset = max(self._offset, info.start_offset)
            if self._offset >= info.length:
                return
            try:
                async with SegmentRangeReader(
                    address, self._offset, info.length, self._services, self._config
                ) as part:
                    async for batch in part.batches():
                        for event in batch.events():
                            watermark = decode_watermark(event.data)
                            self._offset = event.end_offset
                            yield watermark
            except SegmentTruncatedError:
                continue


class TimeWindows(OfOneProcess):
    """Follows the watermarks of one stream along positions that ascend.

    Made by :meth:`Client.time_windows`.
    """

    def __init__(self, marks: MarkReader, cuts: Cuts) -> None:
        self._marks = marks
        self._cuts = cuts
        self._ranges: dict[int, KeyRange] = {}
        self._passed: int | None = None
        self._ahead: deque[Watermark] = deque()
        """Watermarks that the position has not passed; only the last may be wholly ahead."""
        self._places = 0
        """In their cuts."""

    def __repr__(self) -> str:
        place = f"{self._marks.scope}/{self._marks.stream}"
        return described("aio.TimeWindows", place, self._marks.uri, f"passed {self._passed}")

    async def advance(self, position: StreamCut) -> TimeWindow:
        """Return the window at ``position``, which does not lie in front of an earlier one.

        Raises:
            InvalidArgumentError: it is a position of another stream, or unbounded.
            NoSuchStreamError: there is no such stream, or it has no watermarks.
        """
        scope, stream = self._marks.scope, self._marks.stream
        if (position.scope, position.stream) != (scope, stream):
            raise InvalidArgumentError(f"{position} is no position of {scope}/{stream}")
        offsets = position.offsets
        await self._learn_ranges(offsets)
        while self._ahead and compare(offsets, self._ranges, self._ahead[0]) > 0:
            passed = self._ahead.popleft()
            self._passed = passed.lower
            self._places -= len(passed.cut)
        if not self._ahead or compare(offsets, self._ranges, self._ahead[-1]) >= 0:
            await self._read_on(offsets)
        return TimeWindow(self._passed, self._ahead[-1].upper if self._ahead else None)

    async def _read_on(self, offsets: Mapping[int, int]) -> None:
        """Read watermarks up to the first that is wholly ahead."""
        async with contextlib.aclosing(self._marks.read()) as watermarks:
            async for watermark in watermarks:
                relation = compare(offsets, self._ranges, watermark)
                if relation > 0:
                    self._passed = watermark.lower
                    continue
                self._ahead.append(watermark)
                self._places += len(watermark.cut)
                if relation < 0:
                    return
                if len(self._ahead) > 2 and self._places > _PLACES_MAX:
                    # Without every second one the lower bound rises in larger steps.
                    self._ahead = deque([*self._ahead][::-2][::-1])
                    self._places = sum(len(each.cut) for each in self._ahead)

    async def _learn_ranges(self, offsets: Mapping[int, int]) -> None:
        unknown = [segment_id for segment_id in offsets if segment_id not in self._ranges]
        if unknown:
            if len(self._ranges) > _RANGES_MAX:
                self._ranges.clear()
                unknown = list(offsets)
            self._ranges.update(await self._cuts.ranges(self._marks.scope, self._marks.stream, unknown))
