"""Which writes of a log the loop makes itself: small ones, while the disk answers sooner than a thread is
woken.

A write in a thread costs two wake-ups and several waits for the interpreter's lock, and where cores are
shared each of them waits for a core: at 10,000 lone events a second that is more than the write. But while
the loop writes, nothing else happens in this process. So the loop goes on only as long as that is quick:

* once its writes take too long in the mean, threads make all of them for a while (a *pause*), for twice as
  long each time that this happens soon again;
* so they do after a single one that took long, a *stall*: for 500 times as long as it took, so that stalls
  take a five-hundredth of the loop's time at most;
* several logs that are busy at the same time have threads, which write side by side.

One object serves all logs on the same disk. Arithmetic only: callers pass the time.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from headrace.limits import KIB, MIB
from headrace.runtime.settings import internal, tunable

#: A write that takes longer says that the disk stalls now and then. A shorter delay may also be the loop's
#: own wait for a core.
STALL_S: Final = 0.020
STALL_FACTOR: Final = 500

#: Writes of all logs that are in flight, the new one among them, for the loop to make one more. Of many logs
#: at work each needs a thread: together those are quicker than one loop.
IN_FLIGHT_MAX: Final = 4

PAUSE_S_MIN: Final = 1.0
PAUSE_S_MAX: Final = 600.0

#: After so long without a pause the next one is short again.
_FORGIVEN_AFTER_S: Final = 60.0

_WEIGHT: Final = 1 / 64
"""Of the newest write in the mean."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopWritesConfig:
    """Which writes to the log are made without a thread."""

    log_write_bytes_max: int = tunable(
        16 * KIB,
        low=0,
        high=1 * MIB,
        help="Log writes up to this size are made on the event loop while the disk is quick. 0: none.",
    )
    mean_s_max: float = internal(
        0.0005, help="The disk is quick while writes take less than this in the mean, and none takes 20 ms."
    )


@dataclass(slots=True)
class LoopWritesStatistics:
    """Counts since the start and gauges of now; of writes that the loop made."""

    writes: int = 0
    write_seconds_total: float = 0.0
    write_seconds_mean: float = 0.0
    """Of recent ones; half of what is allowed at the start and behind a pause."""

    write_seconds_max: float = 0.0
    pauses: int = 0
    pause_seconds_last: float = 0.0
    """How long threads made all writes since the last pause began, or make them still."""


class LoopWrites:
    """How quick the disk is. Used on one loop; sizes in bytes, times in seconds of one clock."""

    __slots__ = ("_bytes_max", "_mean_s_max", "_resumes_at", "_statistics", "in_flight")

    def __init__(self, config: LoopWritesConfig) -> None:
        self._bytes_max = config.log_write_bytes_max
        self._mean_s_max = config.mean_s_max
        self.in_flight = 0
        """Writes of all logs, by threads or the loop, until the loop has seen their end. Logs count here."""
        self._resumes_at = 0.0
        self._statistics = LoopWritesStatistics(write_seconds_mean=config.mean_s_max / 2)

    def allows(self, size: int, now: float) -> bool:
        """Say whether the loop may make a write of ``size`` itself; it counts as in flight already."""
        return size <= self._bytes_max and self.in_flight <= IN_FLIGHT_MAX and now >= self._resumes_at

    def add(self, seconds: float, now: float) -> None:
        """A write took the loop so long; it ended ``now``."""
        found = self._statistics
        found.writes += 1
        found.write_seconds_total += seconds
        found.write_seconds_max = max(found.write_seconds_max, seconds)
        found.write_seconds_mean += (seconds - found.write_seconds_mean) * _WEIGHT
        if seconds >= STALL_S or found.write_seconds_mean >= self._mean_s_max:
            self._pause(seconds * STALL_FACTOR if seconds >= STALL_S else 0.0, now)

    def _pause(self, at_least: float, now: float) -> None:
        found = self._statistics
        found.pauses += 1
        soon = found.pauses > 1 and now - self._resumes_at < _FORGIVEN_AFTER_S
        usual = 2 * found.pause_seconds_last if soon else PAUSE_S_MIN
        found.pause_seconds_last = min(PAUSE_S_MAX, max(usual, at_least))
        self._resumes_at = now + found.pause_seconds_last
        found.write_seconds_mean = self._mean_s_max / 2

    def statistics(self) -> LoopWritesStatistics:
        return replace(self._statistics)
