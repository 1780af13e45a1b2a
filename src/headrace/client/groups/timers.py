"""When a reader of a group does what, in seconds of its own clock. Pure: time and chance are given.

Source: protocol, "Timers, acquire/release policy".
"""

from __future__ import annotations

from typing import Final

TIME_UNIT_S: Final = 1.0
ATTEMPT_S: Final = 30.0
"""After an attempt to acquire or release has begun, another one waits so long for its end."""
REPORT_S_MAX: Final = 10.0
"""Between two signs of life, however many readers there are."""
CONFIG_CHECK_S: Final = 10.0
FETCH_S_MAX: Final = 1.0
"""Between two looks at the group, which cost little, so that what a reader leaves is taken over soon."""
EARLY_S: Final = 1.0
"""Between a checkpoint and one that a completed segment waits for."""
TAKE_OVER_S: Final = 0.25
"""Between the readers that take over what another one has left."""
_FETCH_S_MIN: Final = 0.05


class GroupTimers:
    """Times from which on something is due."""

    def __init__(self, now: float) -> None:
        self.fetch = now
        self.report = now
        self.acquire = now
        self.release = now + TIME_UNIT_S
        self.config_check = now + TIME_UNIT_S
        self.checkpoint = now + TIME_UNIT_S
        self._last_checkpoint = now

    def next(self, *, is_held: bool) -> float:
        """Return when to look again at the latest; nothing is acquired while a checkpoint is to be passed."""
        due = min(self.fetch, self.report, self.config_check, self.checkpoint)
        return due if is_held else min(due, self.acquire)

    def on_fetched(self, now: float, refresh_ms: int) -> None:
        self.fetch = now + min(FETCH_S_MAX, max(_FETCH_S_MIN, refresh_ms / 1000))

    def on_reported(self, now: float, readers: int) -> None:
        self.report = now + min(REPORT_S_MAX, TIME_UNIT_S * (readers + 1))

    def on_config_checked(self, now: float) -> None:
        self.config_check = now + CONFIG_CHECK_S

    def on_checkpoint(self, now: float, interval_ms: int) -> None:
        """One was created, by whomever."""
        self._last_checkpoint = now
        self.checkpoint = now + interval_ms / 1000 if interval_ms > 0 else float("inf")

    def on_waiting_for_checkpoint(self) -> None:
        """A segment is completed: its successors are read behind the next checkpoint, which comes early."""
        self.checkpoint = min(self.checkpoint, self._last_checkpoint + EARLY_S)

    def on_attempt(self, now: float) -> None:
        """Segments are being acquired, or one released."""
        self.acquire = now + ATTEMPT_S
        self.release = now + ATTEMPT_S

    def on_attempted(self, now: float, readers: int, ranking: int) -> None:
        """They were, or there was nothing to do: the one with most in front releases first, acquires last."""
        self.acquire = now + TIME_UNIT_S * (readers - ranking)
        self.release = now + TIME_UNIT_S * (1 + ranking)

    def on_reader_left(self, now: float, readers: int, ranking: int) -> None:
        """Take over soon, the one with least in front first."""
        self.acquire = min(self.acquire, now + TAKE_OVER_S * (readers - 1 - ranking))

    def on_completed(self, now: float) -> None:
        """A segment was completed: what follows it may be acquired."""
        self.acquire = now
