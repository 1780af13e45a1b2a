"""Who goes first: operations the rest of the system waits for, and those that free something.

The two most urgent priorities are never delayed by the throttle nor by the bounds on memory: a container that
could not write a checkpoint, the rows of its storage or a deletion could never free what it lacks.
"""

from __future__ import annotations

from enum import IntEnum

from headrace.model import attributes as attr


class Priority(IntEnum):
    """Smaller goes first; within one, first come first served."""

    SYSTEM_CRITICAL = 0
    CRITICAL = 1
    HIGH = 2
    NORMAL = 3


DELAYED_FROM = Priority.HIGH
"""This and everything less urgent is held back by throttle and memory bounds."""


def priority_of(type_bits: int, *, system: bool, deletes: bool = False) -> Priority:
    """Return the priority of an operation on a segment with these ``type_bits``.

    ``system``: the segment belongs to the system's scope. A table there is metadata that others wait for.
    """
    system = system or type_bits & attr.TYPE_SYSTEM == attr.TYPE_SYSTEM
    critical = bool(type_bits & attr.TYPE_CRITICAL) or (system and bool(type_bits & attr.TYPE_TABLE))
    if system and critical:
        return Priority.SYSTEM_CRITICAL
    if critical or deletes:
        return Priority.CRITICAL
    return Priority.HIGH if system else Priority.NORMAL
