"""Accepting what long-term storage says, and refusing what it cannot say.

After recovery, and after a call whose outcome is unknown, storage may have more than the segment's state
says: a former owner, or the call, may have stored more. Its committed rows say how much; they are believed
once the bytes have been compared with those of the log. A state that no call can leave behind is an error.
"""

from __future__ import annotations

from collections.abc import Sequence

from headrace.errors import DataCorruptionError
from headrace.segmentstore.state.segment_state import SegmentState
from headrace.storage.chunks.segment_info import StoredSegmentInfo


def adopt_stored_state(segment: SegmentState, info: StoredSegmentInfo | None) -> int:
    """Take over what storage says about a seal; return the length that it claims.

    Raises:
        DataCorruptionError: storage has bytes or a seal the log does not know, or has lost bytes.
    """
    is_live = not (segment.deleted or segment.merged)
    if not is_live:
        # What storage still has of it will be deleted; only bytes can matter, to a merge. Storage may never
        # have got all of it: if the segment, or the target of the merge, was deleted before.
        length = info.length if info is not None else segment.stored_length
    elif info is None:
        if segment.stored_length:
            raise _contradiction(
                segment, f"storage does not know it, {segment.stored_length} bytes were stored"
            )
        segment.note_stored_seal(sealed=segment.sealed and segment.durable_length == 0)
        return 0
    else:
        length = info.length
        if info.sealed and not segment.sealed:
            raise _contradiction(segment, "storage has it sealed, the log does not")
        if info.sealed and length < segment.durable_length:
            raise _contradiction(segment, f"storage has it sealed with {length} bytes")
        if info.start_offset > segment.start_offset:
            raise _contradiction(
                segment, f"storage has it from {info.start_offset} on, the log from {segment.start_offset}"
            )
        segment.note_stored_seal(sealed=info.sealed)
    if length > segment.durable_length:
        raise _contradiction(segment, f"storage has {length} bytes, the log {segment.durable_length}")
    if is_live and length < segment.stored_length:
        raise _contradiction(segment, f"storage has {length} of {segment.stored_length} stored bytes")
    return length


def first_difference(stored: memoryview, cached: Sequence[memoryview]) -> int | None:
    """Return where ``stored`` and the joined ``cached`` bytes, of the same length, differ; None if not."""
    at = 0
    for view in cached:
        size = len(view)
        part = stored[at : at + size]
        if bytes(part) != bytes(view):  # memcmp; views are compared item by item
            return at + next(i for i in range(size) if part[i] != view[i])
        at += size
    assert at == len(stored)
    return None


def _contradiction(segment: SegmentState, what: str) -> DataCorruptionError:
    return DataCorruptionError(f"segment {segment.name!r}: {what}")
