"""A full disk blocks a log and does not end it: a write that found no space is retried until there is some.

Nothing of it was acknowledged and no other record has its place in the log, so writing it again is the same
as having written it later. Meanwhile its frames are in use, the append path finds none free, and reads go on.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from headrace.errors import StorageFullError
from headrace.wal.contract import WalStatistics

_logger = logging.getLogger(__name__)

#: Pauses between attempts: short enough that nothing has to be restarted once there is space.
PAUSE_S: Final = 0.1
PAUSE_MAX_S: Final = 1.0
#: How often a log that is still blocked reports it.
REPORT_S: Final = 60.0


class SpaceWait:
    """One thing that waits for space on the disk. Used on one loop."""

    def __init__(self, log: str, retry: Callable[[], None], statistics: WalStatistics) -> None:
        self._log = log
        self._retry = retry
        self._statistics = statistics
        self._timer: asyncio.TimerHandle | None = None
        self._pause_s = PAUSE_S
        self._since: float | None = None
        self._reported_at = 0.0
        self._given_up = False

    @property
    def waiting(self) -> bool:
        """Whether it has not succeeded since it found no space: it pauses or is tried again."""
        return self._since is not None

    @property
    def pausing(self) -> bool:
        """Whether the next attempt lies in the future: until then there is no point in another one."""
        return self._timer is not None

    def begin(self, error: StorageFullError) -> bool:
        """Retry after a pause; return False after ``give_up``.

        May be called again before the attempt: there will be one for all.
        """
        if self._given_up:
            return False
        loop = asyncio.get_running_loop()
        now = loop.time()
        if self._since is None:
            self._since = now
            self._statistics.space_waits += 1
            self._statistics.space_waiting += 1
            self._report(now, error)
        elif now - self._reported_at >= REPORT_S:
            self._report(now, error)
        if self._timer is None:
            self._timer = loop.call_later(self._pause_s, self._attempt)
            self._pause_s = min(self._pause_s * 2, PAUSE_MAX_S)
        return True

    def end(self) -> None:
        """It has succeeded."""
        if self._since is not None:
            seconds = asyncio.get_running_loop().time() - self._since
            _logger.warning("log in %s: there is space again, after %.1f s", self._log, seconds)
            self.cancel()

    def cancel(self) -> None:
        """There is nothing left to wait for."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._since is not None:
            self._since = None
            self._pause_s = PAUSE_S
            self._statistics.space_waiting -= 1

    def give_up(self) -> None:
        """Wait no longer, now and in future."""
        self._given_up = True
        self.cancel()

    def _attempt(self) -> None:
        self._timer = None
        self._retry()

    def _report(self, now: float, error: StorageFullError) -> None:
        self._reported_at = now
        _logger.error("log in %s: %s; appends wait until there is", self._log, error)
