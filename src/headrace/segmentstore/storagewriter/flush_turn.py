"""Whose turn it is with a segment that owes something to storage. Pure: what is not listed cannot happen."""

from __future__ import annotations

from enum import Enum
from typing import Final

Turn = Enum("Turn", "IDLE FLUSHED WAITING HELD HELD_WAITING")
"""A flush works on the head of the queue; the head waits for a merge source, or for the deletion of the
segment; a step of its target uses it, so that no flush may begin."""

TurnEvent = Enum("TurnEvent", "BEGIN WAIT END RESUME HOLD RELEASE")
"""``RESUME``: what it waited for has happened, or does not matter any more. ``HOLD`` and ``RELEASE``: by the
target."""

_E = TurnEvent
LEGAL: Final = {
    Turn.IDLE: {_E.BEGIN: Turn.FLUSHED, _E.RESUME: Turn.IDLE, _E.HOLD: Turn.HELD},
    Turn.FLUSHED: {_E.END: Turn.IDLE, _E.WAIT: Turn.WAITING, _E.RESUME: Turn.FLUSHED},
    Turn.WAITING: {_E.END: Turn.WAITING, _E.RESUME: Turn.IDLE, _E.HOLD: Turn.HELD_WAITING},
    Turn.HELD: {_E.RESUME: Turn.HELD, _E.RELEASE: Turn.IDLE},
    Turn.HELD_WAITING: {_E.RESUME: Turn.HELD, _E.RELEASE: Turn.WAITING},
}
"""The turn that follows."""
