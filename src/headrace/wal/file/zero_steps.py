"""How much of a log file is zeroed at a time.

A step is synced, and records that are written meanwhile wait for the disk behind it. A step of 4 MiB delayed
records of an idle log by 5 to 15 ms, and since records take 4 KiB at least, a thousand lone events a second
need one each second: more than one event in a hundred waited for it. So steps are small, and grow only while
so much is written that small ones would fall behind.

Arithmetic on bytes: what was written during a step says how fast the log is.
"""

from __future__ import annotations

from typing import Final

from headrace.limits import KIB
from headrace.wal.config import BLOCK_BYTES

STEP_BYTES_MIN: Final = 256 * KIB
"""Takes a disk as long as a few records."""

_GROW_SHARE: Final = 4
_SHRINK_SHARE: Final = 16
"""Steps grow while records of more than a fourth of their bytes are written meanwhile, and shrink below a
sixteenth."""


class ZeroSteps:
    """The size of the next step, between ``STEP_BYTES_MIN`` and ``bytes_max``, in whole blocks."""

    __slots__ = ("_bytes_max", "_bytes_min", "_written", "size")

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._bytes_min = min(STEP_BYTES_MIN, bytes_max)
        self.size = self._bytes_min
        self._written = 0

    def begin(self, written: int) -> int:
        """A step begins when ``written`` bytes of records were placed in all; return its size."""
        self._written = written
        return self.size

    def end(self, written: int) -> None:
        """The step has ended, and ``written`` bytes were placed by now."""
        meanwhile = written - self._written
        if meanwhile * _GROW_SHARE > self.size:
            self.size = min(2 * self.size, self._bytes_max)
        elif meanwhile * _SHRINK_SHARE < self.size:
            self.size = max(self.size // 2 // BLOCK_BYTES * BLOCK_BYTES, self._bytes_min)
