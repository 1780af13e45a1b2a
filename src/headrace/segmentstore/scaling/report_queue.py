"""Reports on their way to the controller: bounded, the newest of each segment, hot segments first.

A controller that is slow or missing blocks this queue and nothing else. While it is full nothing is judged
cold, and a hot segment is judged again after its cool-down.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from headrace.model.segment_report import REPORTS_MAX, Load, SegmentReport
from headrace.segmentstore.scaling.config import ScalingConfig

_logger = logging.getLogger(__name__)

SendReports = Callable[[Sequence[SegmentReport]], Awaitable[None]]
"""Has controllers act on up to ``REPORTS_MAX`` reports, at least once. Any error: try all of them again."""


@dataclass(slots=True)
class ReportStatistics:
    """Reports now, and since the start."""

    waiting: int
    sent: int
    failed: int
    dropped: int
    """Those that waited too long, or found the queue full."""


class ReportQueue:
    """Used on one loop."""

    def __init__(self, send: SendReports, config: ScalingConfig) -> None:
        self._send = send
        self._config = config
        self._hot: OrderedDict[str, tuple[SegmentReport, float]] = OrderedDict()
        self._others: OrderedDict[str, tuple[SegmentReport, float]] = OrderedDict()
        self._filled = asyncio.Event()
        self._sent = self._failed = self._dropped = 0

    @property
    def is_full(self) -> bool:
        """Whether nothing but hot segments should be reported now."""
        return len(self._others) >= self._config.queue_max

    def put(self, report: SegmentReport) -> None:
        """Queue a report, instead of an older one of the same segment."""
        self._hot.pop(report.segment, None)
        self._others.pop(report.segment, None)
        lane = self._hot if report.load is Load.HOT else self._others
        if len(lane) >= self._config.queue_max:
            lane.popitem(last=False)
            self._dropped += 1
        lane[report.segment] = (report, asyncio.get_running_loop().time())
        self._filled.set()

    async def run(self) -> None:
        """Send reports until cancelled."""
        while True:
            await self._filled.wait()
            lane = self._hot or self._others
            if not lane:
                self._filled.clear()
                continue
            batch = [lane.popitem(last=False) for _ in range(min(len(lane), REPORTS_MAX))]
            oldest = asyncio.get_running_loop().time() - self._config.expiry_s
            sending = [each for each in batch if each[1][1] >= oldest]
            self._dropped += len(batch) - len(sending)
            if await self._have_sent([report for _, (report, _) in sending]):
                self._sent += len(sending)
            else:
                self._failed += len(sending)
                for segment, waiting in sending:
                    if segment not in self._hot and segment not in self._others:
                        lane[segment] = waiting
                await asyncio.sleep(self._config.retry_s)

    async def _have_sent(self, reports: Sequence[SegmentReport]) -> bool:
        if not reports:
            return True
        try:
            async with asyncio.timeout(self._config.timeout_s):
                await self._send(reports)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is counted and tried again
            _logger.debug("%d reports of segments were not taken: %r", len(reports), error)
            return False
        return True

    def statistics(self) -> ReportStatistics:
        return ReportStatistics(len(self._hot) + len(self._others), self._sent, self._failed, self._dropped)
