"""How long a session is sure to live, judged by the clock of the process that has it."""

from __future__ import annotations

import asyncio


class Lease:
    """Valid for ``duration_s`` from the moment at which the last answered request was sent.

    The coordinator lets the session live for longer than that (by a margin that the implementation chooses),
    so a process that looks here before it acts knows without asking. Silence makes a lease invalid; an answer
    that comes after all makes it valid again, unless the session has ended. Without a duration it is valid
    until the session ends. Used on one event loop, whose clock is monotonic.
    """

    def __init__(self, duration_s: float | None = None) -> None:
        self.lost = asyncio.Event()
        """Set when the lease becomes invalid for the first time, and never cleared."""
        self._loop = asyncio.get_running_loop()
        self._duration_s = duration_s
        self._ended = False
        self._until = self._loop.time()
        self._timer: asyncio.TimerHandle | None = None
        if duration_s is not None:
            self.renew(self._until)

    @property
    def is_valid(self) -> bool:
        """Whether what the session owns may be used now."""
        return not self._ended and (self._duration_s is None or self._loop.time() < self._until)

    def renew(self, sent: float) -> None:
        """A request that was sent at ``sent``, on the loop's clock, has been answered."""
        if self._duration_s is None or self._ended:
            return
        self._until = max(self._until, sent + self._duration_s)
        if self._timer is None:
            self._timer = self._loop.call_at(self._until, self._on_time)

    def end(self) -> None:
        """The session has ended. Idempotent."""
        self._ended = True
        self.lost.set()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _on_time(self) -> None:
        self._timer = None
        if self.is_valid:
            self._timer = self._loop.call_at(self._until, self._on_time)
        else:
            self.lost.set()
