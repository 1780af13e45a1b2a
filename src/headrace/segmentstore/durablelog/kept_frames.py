"""Frames that others leave alone while a block of several frames waits for as many.

It would starve beside those who need fewer, who take each that comes back. So once it was refused frames are
kept for it, until it was let in or does not ask any more. Large blocks that need different numbers have their
turns in the order in which they were refused first. Where large ones always wait, somebody smaller whom that
held back goes in between.

Source: ``docs/flows/append.md``, "Turns".
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from headrace.segmentstore.durablelog.frame_dispatch import FrameDispatch
from headrace.segmentstore.durablelog.processor_statistics import ProcessorStatistics
from headrace.wal.contract import Wal

_KEPT_FOR: Final = 32
"""Durable frames, each of which wakes who waits, after which a large block would have asked again."""


class KeptFrames:
    """How many are kept, and until when. ``ask`` lets whoever waits ask once more, before anybody smaller;
    :meth:`stop` has to follow.
    """

    __slots__ = (
        "_ask",
        "_dispatch",
        "_held_back",
        "_is_asked",
        "_loop",
        "_owed",
        "_owed_from",
        "_stats",
        "_waiting",
        "_wal",
    )

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        wal: Wal,
        dispatch: FrameDispatch,
        stats: ProcessorStatistics,
        ask: Callable[[], None],
    ) -> None:
        self._loop = loop
        self._wal = wal
        self._dispatch = dispatch
        self._stats = stats
        self._ask = ask
        self._waiting: dict[int, int] = {}
        """How many frames large blocks wait for, in their order; for each, how many frames are durable when
        the block is taken to have left. Frames are kept for the first.
        """
        self._is_asked = False
        """All frames are back, and the large block has not asked since."""
        self._held_back: set[bool] = set()
        """Who was refused since the last large block was let in: a smaller block, a request (True), both."""
        self._owed: set[bool] = set()
        """Who of these goes before the next large block: one each, or blocks would always be late."""
        self._owed_from = 0
        """How many frames are durable when they do. Not before: those asked in front of the large block would
        be passed by those behind it, in each round.
        """

    def _count(self) -> int:
        """Return how many are kept: 0 if no large block waits, as far as is known."""
        waiting = self._waiting
        while waiting:
            count = next(iter(waiting))
            if waiting[count] >= self._stats.frames_durable:
                return count
            del waiting[count]
        return 0

    def are_wanted(self, count: int) -> bool:
        """Whether a large block that needs ``count`` waits, as far as is known."""
        return self._waiting.get(count, -1) >= self._stats.frames_durable

    def keep(self, count: int) -> None:
        """A large block was refused: it needs so many."""
        self._waiting[count] = self._stats.frames_durable + _KEPT_FOR
        if count == self._count():
            self._is_asked = False

    def let_in(self, count: int) -> bool:
        """Whether a large block may take ``count`` of the free frames: not what is kept for another one."""
        kept = self._count()
        if kept not in (0, count) and self._wal.frames_free - count < kept:
            self._ask_if_all_are_back()
            return False
        self._waiting.pop(count, None)
        if kept == count:
            self._is_asked = False
        if self._held_back:
            if not self._owed:
                self._owed_from = self._stats.frames_durable + 1
            self._owed |= self._held_back
            self._held_back.clear()
        return True

    def leaves(self, needed: int, *, is_request: bool) -> bool:
        """Whether a request or a smaller block that takes ``needed`` of the free frames leaves what is kept.

        Asked by those who would take them now.
        """
        kept = self._count()
        if not kept or self._wal.frames_free - needed >= kept:
            return True
        if is_request in self._owed and self._owed_from <= self._stats.frames_durable:
            self._owed.remove(is_request)
            return True
        self._held_back.add(is_request)
        self._ask_if_all_are_back()
        return False

    def _ask_if_all_are_back(self) -> None:
        if not self._dispatch.frames_held and not self._is_asked:
            self._is_asked = True  # no frame is out that would wake anybody
            self._loop.call_soon(self._ask)

    def stop(self, *, everybody_asked: bool) -> None:
        """Those who wait had their chance: a large block that has not come does not wait any more."""
        if self._is_asked and everybody_asked:
            self._waiting.pop(self._count(), None)
        self._is_asked = False
