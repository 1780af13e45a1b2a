"""The time that a simulated loop shows its program, and when the program's timers strike.

The machine has one exact time. A program does not see it: it asks its loop, and loops round. That matters
where a deadline from ``time()`` is compared with a later ``time()``, so simulation has both kinds:

* ``ExactTime``: a timer strikes at its deadline, to the last bit.
* ``MillisecondTime``, as uvloop has it: ``time()`` is whole milliseconds since the machine was started,
  divided by 1,000, and delays are rounded to milliseconds, the smallest to none. So a timer may strike up to
  half a millisecond before its deadline. And hours after the start ``time() + delay``, rounded to a float,
  may lie above what ``time()`` is when exactly that many milliseconds have passed.
"""

from __future__ import annotations

from typing import Final, Protocol

#: The machine's time when a simulation begins; not zero, which may stand for "no time yet".
TIME_START_S: Final = 1_000.0

#: What one iteration of a loop takes at least, where a timer may strike in the next one.
_ITERATION_S: Final = 50e-6

#: Far above the rounding errors of ``now``, far below a millisecond.
_SLACK_MS: Final = 1e-6


class LoopTime(Protocol):
    """The time of a loop. ``now`` is the machine's."""

    def read(self, now: float) -> float:
        """Return what ``time()`` says."""

    def after(self, delay: float, now: float) -> float:
        """Return the machine's time at which a timer with this delay strikes."""

    def at(self, when: float, now: float) -> float:
        """Return the machine's time at which a timer with this deadline strikes."""


class ExactTime:
    """A program reads the machine's time."""

    __slots__ = ()

    def read(self, now: float) -> float:
        return now

    def after(self, delay: float, now: float) -> float:
        return now + delay

    def at(self, when: float, now: float) -> float:
        del now
        return when


class MillisecondTime:
    """A program reads whole milliseconds."""

    __slots__ = ("_start_ms",)

    def __init__(self, start_ms: int) -> None:
        """``start_ms``: what the program reads at the start, in milliseconds."""
        self._start_ms = start_ms

    def read(self, now: float) -> float:
        return (self._start_ms + _milliseconds(now)) / 1000

    def after(self, delay: float, now: float) -> float:
        count = round(delay * 1000)
        if count <= 0:
            return now + _ITERATION_S
        return TIME_START_S + (_milliseconds(now) + count) / 1000

    def at(self, when: float, now: float) -> float:
        return self.after(when - self.read(now), now)


def _milliseconds(now: float) -> int:
    return int((now - TIME_START_S) * 1000 + _SLACK_MS)
