"""The updates that a reader, or an owner of a group, makes of the newest state: only those that fit it. Pure.

A synchronizer calls a proposal with the newest state, again if somebody else was faster. An empty list is
"nothing to do any more".

Source: protocol, "Reader main loop", "End of segment and successors" and "Checkpoints".
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet

from headrace.client.groups.acquire_policy import count_to_acquire, segment_to_release
from headrace.client.groups.checkpoint_state import Offsets, is_silent
from headrace.client.groups.group_state import GroupState
from headrace.client.groups.updates import (
    AcquireSegment,
    AddReader,
    CheckpointPublished,
    CheckpointReader,
    ClearCheckpointsBefore,
    CreateCheckpoint,
    ReleaseSegment,
    RemoveReader,
    SegmentCompleted,
    Update,
    UpdateDistanceToTail,
)
from headrace.client.segment_address import SegmentAddress
from headrace.client.segment_map import Successor
from headrace.errors import PreconditionError, ReaderOfflineError, ThrottledError


def check_online(state: GroupState, reader: str) -> None:
    """Raise ReaderOfflineError if a reader is not online."""
    if reader not in state.assigned:
        raise ReaderOfflineError(
            f"reader {reader} is offline: it was put offline, or its group was reset; what it had goes on "
            "elsewhere. Open a new reader"
        )


def check_owned(state: GroupState, reader: str, segments: AbstractSet[SegmentAddress]) -> None:
    """Raise ReaderOfflineError if a reader has not the segments that it reads: another one has its name."""
    check_online(state, reader)
    if state.assigned[reader].keys() != segments:
        raise ReaderOfflineError(
            f"reader {reader} was put offline, and another one of its name came. Open a new reader"
        )


def join(state: GroupState, reader: str) -> list[Update]:
    """A reader comes. Raises PreconditionError: one of this name is online."""
    if reader in state.assigned:
        raise PreconditionError(
            f"reader {reader} is online already: take another name, or put it offline if it is gone"
        )
    return [AddReader(reader)]


def leave(state: GroupState, reader: str, offsets: Offsets) -> list[Update]:
    """A reader leaves, or is put offline, if it is online."""
    if reader not in state.assigned:
        return []
    owned = state.assigned[reader]
    return [RemoveReader(reader, {segment: at for segment, at in offsets.items() if segment in owned})]


def acquire(state: GroupState, reader: str, distance: int, last_read: Offsets) -> list[Update]:
    """A reader takes segments, unless it has a checkpoint to pass. Raises ReaderOfflineError."""
    check_online(state, reader)
    if state.checkpoints.next_for(reader) is not None:
        return []
    segments = list(state.unassigned)[: count_to_acquire(state, reader)]
    taken: list[Update] = [AcquireSegment(reader, segment) for segment in segments]
    return [*taken, *report(state, reader, distance, last_read)] if taken else []


def release(
    state: GroupState, reader: str, segment: SegmentAddress, offset: int, distance: int, last_read: Offsets
) -> list[Update]:
    """A reader gives back a segment that it has stopped to read at ``offset``, if it still should.

    Raises:
        ReaderOfflineError: the reader is not online.
    """
    check_online(state, reader)
    if state.checkpoints.next_for(reader) is not None or segment_to_release(state, reader) != segment:
        return []
    return [ReleaseSegment(reader, segment, offset), *report(state, reader, distance, last_read)]


def report(state: GroupState, reader: str, distance: int, last_read: Offsets) -> list[Update]:
    """A reader says where it is. Raises ReaderOfflineError."""
    check_online(state, reader)
    known = {segment: at for segment, at in last_read.items() if segment in state.last_read and at >= 0}
    ranges = {segment: state.ranges[segment] for segment in known if segment in state.ranges}
    return [UpdateDistanceToTail(reader, distance, known, ranges)]


def complete(
    state: GroupState, reader: str, segment: SegmentAddress, successors: list[Successor]
) -> list[Update]:
    """A reader has read a segment to its end, and passed a checkpoint behind it.

    A successor that is read already is not named again: clients that share a group of several streams may
    have begun it early.

    Raises:
        ReaderOfflineError: the reader is not online, or has lost the segment.
    """
    check_online(state, reader)
    if segment not in state.assigned[reader]:
        raise ReaderOfflineError(f"reader {reader} has lost segment {segment.name}. Open a new reader")
    if state.checkpoints.next_for(reader) is not None:
        return []
    known = state.offsets()
    named: dict[SegmentAddress, tuple[int, ...]] = {}
    ranges = {segment: state.ranges[segment]} if segment in state.ranges else {}
    for each in successors:
        address = SegmentAddress(segment.scope, segment.stream, each.segment_id)
        if address not in known:
            named[address] = each.predecessors
            ranges[address] = each.key_range
    return [SegmentCompleted(reader, segment, named, ranges)]


def pass_checkpoint(state: GroupState, reader: str, name: str, positions: Offsets) -> list[Update]:
    """A reader passes a checkpoint, if it still has to. Raises ReaderOfflineError."""
    check_online(state, reader)
    if reader not in state.checkpoints.pending.get(name, ()):
        return []
    owned = state.assigned[reader]
    return [CheckpointReader(name, reader, {each: at for each, at in positions.items() if each in owned})]


def automatic_checkpoint(state: GroupState, name: str) -> list[Update]:
    """Create a checkpoint in place of all before, unless one is waited for.

    The last one stays until the next time: who has asked for it may not have seen yet that it is complete.
    """
    if state.checkpoints.pending or name in state.checkpoints.names:
        return []
    return [*(ClearCheckpointsBefore(each) for each in state.checkpoints.names[-1:]), CreateCheckpoint(name)]


def create_checkpoint(state: GroupState, name: str) -> list[Update]:
    """Create a checkpoint that somebody waits for.

    Raises:
        ThrottledError: as many as the group may have are waited for.
        PreconditionError: there is one of this name.
    """
    if name in state.checkpoints.names:
        raise PreconditionError(f"checkpoint {name} exists already: take another name")
    if not is_silent(name) and len(state.checkpoints.outstanding()) >= state.config.checkpoints_max:
        waiting = ", ".join(state.checkpoints.outstanding())
        raise ThrottledError(
            f"{state.config.checkpoints_max} checkpoints are waited for already ({waiting}): wait for one, "
            "or cancel them"
        )
    return [CreateCheckpoint(name)]


def clear_before(state: GroupState, name: str) -> list[Update]:
    """Forget the checkpoints before one that is known."""
    return [ClearCheckpointsBefore(name)] if name in state.checkpoints.positions else []


def published(state: GroupState, positions: Mapping[SegmentAddress, int]) -> list[Update]:
    """The controller was told the last checkpoint, if it is still this one."""
    if state.checkpoints.is_published or state.checkpoints.last != positions:
        return []
    return [CheckpointPublished(True)]
