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


@dataclass(slots=True)
class Run:
    """One reader going through a segment, known only by where it will read next."""

    ahead: int
    """Bytes below this offset have been asked for already."""
    window: int = 0


class SequentialRuns:
    """The runs of one segment. Pure: it is told about reads and answers with ranges."""

    __slots__ = ("_runs",)

    def __init__(self) -> None:
        self._runs: dict[int, Run] = {}

    def __len__(self) -> int:
        return len(self._runs)

    def is_sequential(self, offset: int, start_offset: int) -> bool:
        """Whether a read at ``offset`` continues a run, or may begin one at the start of the segment."""
        return offset in self._runs or offset == start_offset

    def on_read(self, offset: int, length: int, start_offset: int, window_max: int) -> tuple[int, int] | None:
        """A reader got ``length`` bytes at ``offset``. Answer the range ``[from, to)`` to read ahead, if any.

        Ranges end on multiples of PIECE_BYTES. ``window_max`` is what the cache grants one run now.
        """
        end = offset + length
        run = self._runs.pop(offset, None)
        fresh = run is None
        if run is None:
            run = Run(end)
            if len(self._runs) >= RUNS_MAX:
                del self._runs[next(iter(self._runs))]
        self._runs[end] = run
        window_max = min(window_max, WINDOW_BYTES_MAX)
        if (fresh and offset != start_offset) or window_max < PIECE_BYTES:
            return None
        begin = max(run.ahead, end)
        target = (end + max(run.window, PIECE_BYTES)) // PIECE_BYTES * PIECE_BYTES
        if target < begin // PIECE_BYTES * PIECE_BYTES + PIECE_BYTES:
            return None
        run.window = min(max(run.window * 2, PIECE_BYTES), window_max)
        run.ahead = target
        return begin, target
