"""Who reads a segment from front to back, and how far ahead of them storage should be read.

A read that begins where an earlier one ended continues a *run*. The second read of a run (the first, if it is
at the start of the segment) asks for one piece ahead; the window doubles with each piece that is used up, as
far as the cache can hold the windows of all runs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from headrace.limits import MIB

PIECE_BYTES: Final = 1 * MIB
WINDOW_BYTES_MAX: Final = 8 * MIB
RUNS_MAX: Final = 16
"""Runs remembered per segment; the one that has been silent longest is forgotten first."""


def grant_window(share_bytes: int, active: int) -> int:
    """How far one of ``active`` runs may read ahead when ``share_bytes`` of the cache are for history.

    All windows together fill half of the share. Runs that ended unnoticed still count, so nobody gets less
    than two pieces, unless the share is too small for that as well: then nothing is read ahead.
    """
    fair = max(2 * PIECE_BYTES, share_bytes // (2 * max(1, active)))
    return min(fair, share_bytes // 4, WINDOW_BYTES_MAX) // PIECE_BYTES * PIECE_BYTES


@dataclass(slots=True)
class Run:
    """One reader going through a segment, known only by where it will read next."""

    ahead: int
    """Bytes below this offset have been asked for already."""
    window: int = 0
    at_hand: bool = False
    """Storage answered the last read of it without waiting: there is nothing to be gained by asking ahead."""


class SequentialRuns:
    """The runs of one segment. Pure: it takes reads and answers with ranges."""

    __slots__ = ("_runs", "active")

    def __init__(self) -> None:
        self._runs: dict[int, Run] = {}
        self.active = 0  # runs with a window

    def __len__(self) -> int:
        return len(self._runs)

    def is_sequential(self, offset: int, start_offset: int) -> bool:
        """Whether a read at ``offset`` continues a run, or may begin one at the start of the segment."""
        return offset in self._runs or offset == start_offset

    def on_at_hand(self, offset: int, length: int) -> None:
        """A reader got ``length`` bytes at ``offset`` that storage had at hand."""
        run = self._move(offset, offset + length)[0]
        run.at_hand = True
        self.active -= run.window > 0
        run.window = 0

    def on_fetched(self, offset: int) -> None:
        """The read at ``offset`` has to wait for storage."""
        if (run := self._runs.get(offset)) is not None:
            run.at_hand = False

    def on_read(self, offset: int, length: int, start_offset: int, window_max: int) -> tuple[int, int] | None:
        """A reader got ``length`` bytes at ``offset``. Answer the range ``[from, to)`` to read ahead, if any.

        Ranges end on multiples of PIECE_BYTES. ``window_max`` is what the cache grants one run now.
        """
        end = offset + length
        run, fresh = self._move(offset, end)
        if run.at_hand or (fresh and offset != start_offset) or window_max < PIECE_BYTES:
            return None
        if run.window and (end + run.window) // PIECE_BYTES * PIECE_BYTES <= run.ahead:
            return None  # no whole piece has been used up since the last time
        self.active += run.window == 0
        run.window = min(max(run.window * 2, PIECE_BYTES), window_max)
        begin = max(run.ahead, end)
        target = (end + run.window) // PIECE_BYTES * PIECE_BYTES
        if target <= begin:
            return None
        run.ahead = target
        return begin, target

    def _move(self, offset: int, end: int) -> tuple[Run, bool]:
        """Let the run at ``offset`` go on to ``end``; answer it, and whether it is new."""
        run = self._runs.pop(offset, None)
        fresh = run is None
        if run is None:
            run = Run(end)
            if len(self._runs) >= RUNS_MAX:
                silent = self._runs.pop(next(iter(self._runs)))
                self.active -= silent.window > 0
        if (other := self._runs.pop(end, None)) is not None:  # two readers meet: they are one from here
            self.active -= other.window > 0
            run.ahead = max(run.ahead, other.ahead)
            run.at_hand = run.at_hand or other.at_hand
        self._runs[end] = run
        return run, fresh
