"""Forgets once an hour what nobody may ask for any more: old outcomes and old segment numbers.

Both are of the whole store; the owner of the first bucket does it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Final

from headrace.controller.context import ControllerContext
from headrace.runtime.logs import logger

_log = logger(__name__)

INTERVAL_S: Final = 3600.0
_BUCKET: Final = 0


class Housekeeping:
    """A ``BucketWork`` of one bucket."""

    name = "housekeeping"

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._done = False

    def is_done(self, buckets: Iterable[int]) -> bool:
        """Whether what is due on ``buckets`` was done."""
        return self._done or _BUCKET not in buckets

    async def run(self, bucket: int) -> None:
        if bucket != _BUCKET:
            return
        try:
            while True:
                numbers = await self._context.numbering.sweep(self._context.clock.now_ms())
                await self._context.outcomes.sweep()
                if numbers:
                    _log.info("old segment numbers are forgotten", count=numbers)
                self._done = True
                await asyncio.sleep(INTERVAL_S)
        finally:
            self._done = False
