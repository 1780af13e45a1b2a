"""Urgent operations: the rest of the system waits for them, or they free something.

They are delayed neither by the throttle nor by the bounds on memory: a container that cannot write a
checkpoint, the rows of its storage or a deletion can free neither log nor memory.
"""

from __future__ import annotations

from headrace.model import attributes as attr
from headrace.segmentstore.state.segment_state import SegmentState


def is_urgent(segments: tuple[SegmentState, ...], *, deletes: bool) -> bool:
    """Whether an operation on ``segments``, the one that changes first, waits for frames only.

    A table of the system's scope is metadata that other components wait for, as is a critical segment.
    """
    if not segments:
        return False
    changed = segments[0]
    type_bits = changed.type_bits
    is_system = changed.is_system or type_bits & attr.TYPE_SYSTEM == attr.TYPE_SYSTEM
    return (
        deletes or bool(type_bits & attr.TYPE_CRITICAL) or (is_system and bool(type_bits & attr.TYPE_TABLE))
    )
