"""What follows the end of a container here: another start after a pause, staying offline, or its release.

Recovery from the log is the only repair, so most failures lead to another start. Damaged data is not retried:
a restart could destroy evidence. Neither is one that another process has taken over: this one would disturb
the owner. A first start is repeated on a full disk only; any other failure is for whoever has given it.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum, auto
from typing import Final

from headrace.errors import CorruptionError, FencedOutError, StorageFullError


class Outcome(Enum):
    """How a start, or the ownership term behind it, has ended."""

    FULL = auto()
    """The disk of the log was full."""
    FAILED = auto()
    DAMAGED = auto()
    FENCED = auto()
    STALLED = auto()
    """A first start failed, and its log, which is stalled, is still in use."""
    TAKEN = auto()


class NextStep(Enum):
    START_AGAIN = auto()
    STAY_OFFLINE = auto()
    """It stays with this process; an operator acts."""
    RELEASE = auto()
    """It is nobody's here any more, and may be given again."""


_AGAIN, _OFFLINE, _RELEASE = NextStep.START_AGAIN, NextStep.STAY_OFFLINE, NextStep.RELEASE

_TABLE: Final = {
    # outcome: (of a first start, of a later one or after one)
    Outcome.FULL: (_AGAIN, _AGAIN),
    Outcome.FAILED: (_RELEASE, _AGAIN),
    Outcome.DAMAGED: (_RELEASE, _OFFLINE),
    Outcome.FENCED: (_RELEASE, _RELEASE),
    Outcome.STALLED: (_RELEASE, _AGAIN),
    Outcome.TAKEN: (_RELEASE, _RELEASE),
}

_FINAL = (CorruptionError, FencedOutError)


def cause_of(failures: Sequence[BaseException]) -> BaseException:
    """Return the first failure, which causes the others; or one that forbids another start."""
    return next((error for error in failures if isinstance(error, _FINAL)), failures[0])


def outcome_of(cause: BaseException) -> Outcome:
    if isinstance(cause, StorageFullError):
        return Outcome.FULL
    if isinstance(cause, FencedOutError):
        return Outcome.FENCED
    return Outcome.DAMAGED if isinstance(cause, CorruptionError) else Outcome.FAILED


class History:
    """What one container has gone through since it was given, as far as it decides what follows.

    The pause before a start is ``pause_min_s`` after a term of ``pause_max_s`` or longer; it doubles, up to
    the latter, with each start that fails or does not last so long: each reads its log and writes a file.
    """

    def __init__(self, pause_min_s: float, pause_max_s: float) -> None:
        self._min_s = self._next_s = pause_min_s
        self._max_s = pause_max_s
        self.has_run = False
        self.pause_s = 0.0

    def on_ended(self, outcome: Outcome, ran_s: float) -> NextStep:
        """Return what follows an end of this outcome, after it ran so long."""
        if ran_s >= self._max_s:
            self._next_s = self._min_s
        self.pause_s = self._next_s
        self._next_s = min(self._next_s * 2, self._max_s)
        return _TABLE[outcome][self.has_run]
