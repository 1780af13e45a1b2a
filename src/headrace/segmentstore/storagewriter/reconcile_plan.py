"""Accepting what long-term storage says, and refusing what it cannot say.

After recovery, and after a call whose outcome is unknown, storage may hold more than the segment's state
says. Its committed rows are the truth; only an impossible truth is an error.
"""

from __future__ import annotations

from headrace.errors import DataCorruptionError
from headrace.segmentstore.container.segment_state import SegmentState
from headrace.storage.chunks.segment_storage import StoredSegmentInfo


def adopt_stored_state(segment: SegmentState, info: StoredSegmentInfo | None) -> bool:
    """Make ``segment`` agree with storage; return whether its stored length changed.

    Raises:
        DataCorruptionError: storage has bytes or a seal the log does not know, or has lost bytes.
    """
    if segment.deleted or segment.merged:
        # What storage still holds of it is on its way out; only bytes can matter, to a merge.
        length = info.length if info is not None else segment.stored_length
    elif info is None:
        if segment.stored_length:
            raise _contradiction(
                segment, f"storage does not know it, {segment.stored_length} bytes were stored"
            )
        segment.stored_sealed = segment.sealed and segment.durable_length == 0
        return False
    else:
        length = info.length
        if info.sealed and not segment.sealed:
            raise _contradiction(segment, "storage has it sealed, the log does not")
        segment.stored_sealed = info.sealed
    if length > segment.durable_length:
        raise _contradiction(segment, f"storage has {length} bytes, the log {segment.durable_length}")
    if length < segment.stored_length:
        raise _contradiction(segment, f"storage has {length} of {segment.stored_length} stored bytes")
    changed = length != segment.stored_length
    segment.stored_length = length
    return changed


def _contradiction(segment: SegmentState, what: str) -> DataCorruptionError:
    return DataCorruptionError(f"segment {segment.name!r}: {what}")
