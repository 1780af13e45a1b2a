"""The throttle of a loaded container: admits a burst, then nothing for a delay, and opens early when the load
falls.

No task sleeps: appends and requests that find the gate closed wait in the queue of the log's admission, which
is served after a timer of the loop, or when something is freed. Urgent requests pass the gate.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

RECHECK_S: Final = 0.1
"""Interval at which a closed gate measures again: other containers free the shared cache without notice."""


@dataclass(slots=True)
class ThrottleStatistics:
    """Why and how much a container is throttled. Times in seconds."""

    source: str = ""
    """Source of the current delay; empty if there is none."""
    delay_s: float = 0.0
    delayed_total_s: float = 0.0
    """How long the gate was closed since the start."""
    delays: int = 0


class ThrottleGate:
    """Closed for the current delay after each burst. ``measure`` returns the current delay and its source.

    An append of an unloaded container checks only ``active``, which is False while no source needs a delay.
    Used on one loop.
    """

    __slots__ = (
        "_burst_bytes",
        "_closed_at",
        "_deadline",
        "_delay_max_s",
        "_delay_s",
        "_delayed_total_s",
        "_delays",
        "_ended",
        "_left",
        "_loop",
        "_measure",
        "_on_open",
        "_source",
        "_timer",
        "active",
        "closed",
    )

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        *,
        burst_bytes: int,
        delay_max_s: float,
        measure: Callable[[], tuple[float, str]],
        on_open: Callable[[], None],
    ) -> None:
        self._loop = loop
        self._burst_bytes = burst_bytes
        self._delay_max_s = delay_max_s
        self._measure = measure
        self._on_open = on_open
        self.active = False
        """Whether entries are counted."""
        self.closed = False
        """Whether nothing may enter now. Implies ``active``."""
        self._left = 0
        self._delay_s = 0.0
        self._source = ""
        self._deadline = 0.0
        self._closed_at = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._ended = False
        self._delayed_total_s = 0.0
        self._delays = 0

    def enter(self, size_bytes: int) -> bool:
        """Admit ``size_bytes`` if the gate is open; the end of the burst closes it. Only while ``active``.

        More than a burst at once is admitted whole, and followed by as many delays.
        """
        if self.closed:
            return False
        self._left -= size_bytes
        if self._left <= 0:
            bursts = 1 - self._left / self._burst_bytes
            self._close(min(self._delay_max_s, self._delay_s * bursts))
        return True

    def update(self) -> None:
        """Measure the load again: begin or end to delay; a shorter delay replaces the rest of this one."""
        if self._ended:
            return
        self._delay_s, self._source = self._measure()
        if not self._delay_s:
            if self.active:
                self.active = False
                self._open()
        elif not self.active:
            self.active = True
            self._close(self._delay_s)
        elif self.closed and self._loop.time() + self._delay_s < self._deadline:
            self._set_timer(self._delay_s)

    @property
    def source(self) -> str:
        """What the current delay is for; empty if there is none."""
        return self._source

    def end(self) -> None:
        """Open for good: the container stops or has failed. The caller serves its queue."""
        self._ended = True
        self.active = False
        self._delay_s, self._source = 0.0, ""
        if self.closed:
            self._unlock()

    def _close(self, delay_s: float) -> None:
        self.closed = True
        self._closed_at = self._loop.time()
        self._delays += 1
        self._set_timer(delay_s)

    def _set_timer(self, delay_s: float) -> None:
        """Open in ``delay_s``, or earlier if a later measurement is lower."""
        self._deadline = self._loop.time() + delay_s
        self._arm()

    def _arm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_at(min(self._deadline, self._loop.time() + RECHECK_S), self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        now, before = self._loop.time(), self._delay_s
        self._delay_s, self._source = self._measure()
        if 0 < self._delay_max_s <= self._delay_s:
            self._deadline = now + self._delay_s  # at the maximum: closed until something is freed
        elif self._delay_s < before:
            self._deadline = now + (self._deadline - now) * self._delay_s / before
        if now < self._deadline:
            self._arm()
            return
        self.active = self._delay_s > 0
        self._open()

    def _open(self) -> None:
        self._left = self._burst_bytes
        if self.closed:
            self._unlock()
            self._on_open()

    def _unlock(self) -> None:
        self.closed = False
        self._delayed_total_s += self._loop.time() - self._closed_at
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def statistics(self) -> ThrottleStatistics:
        now = self._loop.time() - self._closed_at if self.closed else 0.0
        return ThrottleStatistics(self._source, self._delay_s, self._delayed_total_s + now, self._delays)

    def check(self) -> None:
        """Assert that a closed gate opens again."""
        assert self.closed == (self._timer is not None)
        assert self.active or not self.closed
        assert not (self._ended and self.active)
        assert self.active == (self._delay_s > 0)
