"""One look at something large for all buckets that are claimed together."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Final

Look = Callable[[frozenset[int]], Awaitable[None]]


LOOK_AGAIN_S: Final = 900.0
"""A row whose event was dropped waits for its owner no longer than this."""


async def until_due(departure: asyncio.Event) -> None:
    """Return when another look is due: another controller has gone, or the last look is long ago.

    The time is the same for all buckets, so that they share a look.
    """
    delay_s = LOOK_AGAIN_S - asyncio.get_running_loop().time() % LOOK_AGAIN_S
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(delay_s):
            await departure.wait()


class _Claim:
    __slots__ = ("bucket", "seen")

    def __init__(self, bucket: int) -> None:
        self.bucket = bucket
        self.seen = False


class SharedLook:
    """Calls ``look`` with the buckets that wait for it, for one set of them at a time."""

    def __init__(self, look: Look) -> None:
        self._look = look
        self._claims: list[_Claim] = []
        self._looking: asyncio.Future[None] | None = None

    async def run(self, bucket: int) -> None:
        """Return when a look that began after this call has seen ``bucket``.

        The task of one caller looks for all. If it fails or is cancelled, its error is its own; another one
        looks again.
        """
        claim = _Claim(bucket)
        self._claims.append(claim)
        try:
            await asyncio.sleep(0)  # the other buckets of the same claim come now
            while not claim.seen:
                if self._looking is None:
                    await self._look_for_all()
                else:
                    await asyncio.wait([self._looking])
        finally:
            self._claims.remove(claim)

    async def _look_for_all(self) -> None:
        over = self._looking = asyncio.get_running_loop().create_future()
        claims = [*self._claims]
        try:
            await self._look(frozenset(claim.bucket for claim in claims))
            for claim in claims:
                claim.seen = True
        finally:
            self._looking = None
            over.set_result(None)
