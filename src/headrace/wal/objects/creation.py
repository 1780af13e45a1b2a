"""One object from the first attempt to create it until it is known what has its name. Pure.

An attempt whose outcome is unknown may be carried out at any time, also after it was repeated: all attempts
send the same bytes, so whichever creates the object, it is ours. Only a look can tell.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import Final

from headrace.wal.objects.object_format import LogObject, ObjectHeader

ATTEMPTS_MAX: Final = 4


class Put(Enum):
    """Outcome of an attempt."""

    CREATED = auto()
    EXISTS = auto()
    FULL = auto()
    """The store has no space; nothing happened."""
    UNKNOWN = auto()


class Step(Enum):
    """What is to be done next, or the end."""

    PUT = auto()
    LOOK = auto()
    OURS = auto()
    """The object is there."""
    TAKEN = auto()
    """Another one has its name."""
    FULL = auto()
    GIVE_UP = auto()
    """Whether it happened stays unknown."""


class Creation:
    """Begins with an attempt."""

    def __init__(self, header: ObjectHeader) -> None:
        self.step = Step.PUT
        self.attempts = 0
        """Whose outcome was not CREATED; a pause grows with them."""
        self.found: LogObject | None = None
        """What has the name, if it is taken."""
        self._header = header
        self._is_in_doubt = False
        self._is_full = False

    def on_put(self, outcome: Put) -> None:
        """Take the outcome of an attempt."""
        assert self.step is Step.PUT
        self.attempts += outcome is not Put.CREATED
        self._is_full = outcome is Put.FULL
        if outcome is Put.CREATED:
            self.step = Step.OURS
        elif outcome is Put.FULL and not self._is_in_doubt:
            self.step = Step.FULL
        else:
            self._is_in_doubt = True
            self.step = Step.LOOK

    def on_look(self, found: LogObject | None) -> None:
        """Take what has the name: None if nothing has."""
        assert self.step is Step.LOOK
        if found is None:
            again = Step.FULL if self._is_full else Step.PUT
            self.step = again if self.attempts < ATTEMPTS_MAX else Step.GIVE_UP
        elif found.header == self._header:
            self.step = Step.OURS
        else:
            self.found = found
            self.step = Step.TAKEN
