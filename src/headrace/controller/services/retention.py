"""Enforces the retention policies of the streams of a bucket, once in each period.

Source: protocol, "Retention"; ``docs/flows/retention.md``.
"""

from __future__ import annotations

import asyncio
from typing import Final

from headrace.controller.context import ControllerContext
from headrace.controller.services.stream_retention import RetentionStatistics, StreamRetention
from headrace.controller.store.layout import RETENTION
from headrace.controller.streams.bucket_index import BucketMember
from headrace.controller.workflows.stream_requests import StreamRequests
from headrace.errors import HeadraceError
from headrace.runtime.logs import logger

_log = logger(__name__)

AT_ONCE: Final = 16
"""Streams of all buckets that are worked on at a time."""

_PAGE_ROWS: Final = 200

_SPREAD: Final = 0.9
"""The part of a period over which the streams of a bucket are spread; the rest is for those that are late."""


class Retention:
    """The work of each owned bucket: rounds of one period. Used on the controller's loop."""

    name: Final = "retention"

    def __init__(self, context: ControllerContext, requests: StreamRequests) -> None:
        self.streams = StreamRetention(context, requests)
        self._context = context
        self._period_s = context.config.retention.period_s
        self._slots = asyncio.Semaphore(AT_ONCE)

    def statistics(self) -> RetentionStatistics:
        return self.streams.statistics

    async def run(self, bucket: int) -> None:
        """Make rounds until cancelled. Buckets begin at random moments within the first period."""
        loop = asyncio.get_running_loop()
        await asyncio.sleep(self._period_s * self._context.entropy.random())
        expected = 0
        while True:
            started = loop.time()
            expected = await self.make_round(bucket, expected)
            await asyncio.sleep(max(0.0, started + self._period_s - loop.time()))

    async def make_round(self, bucket: int, expected: int = 0) -> int:
        """Work on every stream of the bucket, spread over the period as ``expected`` ones; return how many
        there were.
        """
        loop = asyncio.get_running_loop()
        started = loop.time()
        count, token = 0, b""
        async with asyncio.TaskGroup() as tasks:
            while True:
                page, token = await self._context.bucket_index.page(bucket, token, _PAGE_ROWS)
                if not page:
                    return count
                for member in page:
                    if member.kind != RETENTION:
                        continue
                    if count < expected:
                        due = started + self._period_s * _SPREAD * count / expected
                        await asyncio.sleep(max(0.0, due - loop.time()))
                    count += 1
                    await self._slots.acquire()
                    task = tasks.create_task(self._enforce(member))
                    task.add_done_callback(self._release)  # also if it is cancelled before it begins

    async def _enforce(self, member: BucketMember) -> None:
        """Work on one stream. Its trouble is not that of another: it is reported and retried."""
        full_name = f"{member.scope}/{member.stream}"
        try:
            await self.streams.enforce(member)
        except HeadraceError as error:
            self.streams.statistics.failures += 1
            _log.warning(
                "retention of a stream waits for the next period", stream=full_name, error=str(error)
            )
        except Exception as error:  # noqa: BLE001 - see above
            self.streams.statistics.failures += 1
            _log.error("retention of a stream failed", stream=full_name, exc_info=error)

    def _release(self, _: asyncio.Task[None]) -> None:
        self._slots.release()
