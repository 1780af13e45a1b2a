"""Frames that others leave alone while a block of several frames waits for as many.

It would starve beside those who need one frame, who take each that comes back. So once it was refused frames
are kept for it, until it was let in or does not ask any more. Where large ones always wait, somebody smaller
whom that held back goes in between.

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
        "_count",
        "_dispatch",
        "_has_held_back",
        "_is_asked",
        "_is_owed",
        "_loop",
        "_stats",
        "_until",
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
        self._count = 0
        self._until = -1
        """How many frames are durable when the large block is taken to have left."""
        self._is_asked = False
        """All frames are back, and the large block has not asked since."""
        self._has_held_back = False
        """Whether somebody smaller was refused since the last large block was let in."""
        self._is_owed = False
        """Whether somebody smaller goes before the next large block."""

    @property
    def active(self) -> bool:
        """Whether a large block waits for them, as far as is known."""
        return self._count > 0 and self._until >= self._stats.frames_durable

    def keep(self, count: int) -> None:
        """A large block was refused: it needs so many."""
        self._is_asked = False
        self._count = count
        self._until = self._stats.frames_durable + _KEPT_FOR

    def release(self) -> None:
        """A large block found its frames."""
        self._is_asked = False
        self._count = 0
        self._is_owed |= self._has_held_back
        self._has_held_back = False

    def leaves(self, needed: int) -> bool:
        """Whether somebody smaller who takes ``needed`` of the free frames leaves what is kept alone.

        Asked by those who would take them now.
        """
        if self._wal.frames_free - needed >= self._count or not self.active:
            return True
        if self._is_owed:
            self._is_owed = False
            return True
        self._has_held_back = True
        if not self._dispatch.frames_held and not self._is_asked:
            self._is_asked = True  # no frame is out that would wake anybody
            self._loop.call_soon(self._ask)
        return False

    def stop(self, *, everybody_asked: bool) -> None:
        """Those who wait had their chance: a large block that has not come does not wait any more."""
        if self._is_asked and everybody_asked:
            self._count = 0
        self._is_asked = False
