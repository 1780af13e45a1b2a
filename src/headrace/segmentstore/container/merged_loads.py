"""What merges added to segments with a rate policy, for the meters of their load.

A transaction is merged at once and was written over its lifetime: the length of the target alone would say
that all of it arrived in one moment, and its event count does not grow with it at all.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from headrace.model import attributes as attr
from headrace.segmentstore.state.segment_state import SegmentState

NOTES_MAX: Final = 10_000
"""Merges that a container remembers until they are taken; a further one is added to one before it."""


@dataclass(slots=True)
class MergedLoad:
    """Bytes and events written to a source since ``created_ms``; in the target they end at offset ``end``."""

    end: int
    created_ms: int
    bytes: int
    events: int


class MergedLoads:
    """The merges of one container since they were taken last, by id of the target."""

    def __init__(self) -> None:
        self._notes: dict[int, list[MergedLoad]] = {}
        self._count = 0

    def note(self, target: SegmentState, source: SegmentState, end: int) -> None:
        """A merge was accepted; it is durable once the target's durable length is ``end``."""
        if target.attributes.accepted.get(attr.SCALE_POLICY_TYPE, 0) <= 0:
            return
        size, values = source.accepted_length, source.attributes.accepted
        events = max(0, values.get(attr.EVENT_COUNT, 0))
        notes = self._notes.get(target.segment_id)
        if self._count < NOTES_MAX:
            self._count += 1
            load = MergedLoad(end, values.get(attr.CREATION_TIME, 0), size, events)
            self._notes.setdefault(target.segment_id, []).append(load)
        elif notes is not None:
            last = notes[-1]
            last.end, last.bytes, last.events = end, last.bytes + size, last.events + events

    def take(self) -> dict[int, list[MergedLoad]]:
        """Return and forget what was noted, in the order of the merges of each target."""
        notes, self._notes, self._count = self._notes, {}, 0
        return notes
