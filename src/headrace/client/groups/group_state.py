"""The state of a reader group, and what each update makes of it: the same in every client. Pure.

An update that does not fit raises ``PreconditionError`` and changes nothing. Written to the stream of the
group it would stop every reader of it for ever, so it is applied here before it is written.

Source: protocol, "Reader-group state model" and "Updates: byte formats and exact effects".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from headrace.client.groups.checkpoint_state import CheckpointState, Offsets, is_silent
from headrace.client.groups.updates import (
    AcquireSegment,
    AddReader,
    CheckpointPublished,
    CheckpointReader,
    ClearCheckpointsBefore,
    CreateCheckpoint,
    Ranges,
    ReleaseSegment,
    RemoveOutstandingCheckpoints,
    RemoveReader,
    SegmentCompleted,
    StateInit,
    Update,
    UpdateDistanceToTail,
    UpdatingConfig,
)
from headrace.client.segment_address import SegmentAddress
from headrace.errors import PreconditionError
from headrace.model.reader_group import ReaderGroupConfig

UNKNOWN_DISTANCE: Final = (1 << 63) - 1
DISTANCE_MIN: Final = 30_000
"""What is in front of a reader, in ms, counts as this much at least."""


@dataclass(frozen=True, slots=True)
class GroupState:
    """Immutable; :func:`apply` returns another one."""

    config: ReaderGroupConfig
    checkpoints: CheckpointState = field(default_factory=CheckpointState)
    distances: Mapping[str, int] = field(default_factory=dict)
    """To the tail, in ms as readers report it. A reader that was removed may be left here."""
    future: Mapping[SegmentAddress, frozenset[int]] = field(default_factory=dict)
    """Successors that are not read yet, with the ids of segments that have to be completed before."""
    assigned: Mapping[str, Offsets] = field(default_factory=dict)
    """By reader; readers without segments are online as well."""
    unassigned: Offsets = field(default_factory=dict)
    """In the order in which they are acquired."""
    last_read: Offsets = field(default_factory=dict)
    ends: Offsets = field(default_factory=dict)
    ranges: Ranges = field(default_factory=dict)
    is_updating: bool = False

    @classmethod
    def begin(cls, init: StateInit) -> GroupState:
        """Return the state of a group that begins."""
        return cls(
            init.config,
            unassigned=dict(init.starts),
            last_read=dict(init.starts),
            ends=dict(init.ends),
            ranges={segment: each for segment, each in init.ranges.items() if segment in init.starts},
            is_updating=init.is_updating,
        )

    @property
    def readers(self) -> list[str]:
        """Those that are online."""
        return list(self.assigned)

    @property
    def segment_count(self) -> int:
        """Segments that are read, or could be."""
        return len(self.unassigned) + sum(map(len, self.assigned.values()))

    @property
    def is_at_end(self) -> bool:
        """Everything was read, and nothing will follow."""
        return not self.future and self.segment_count == 0

    def offsets(self) -> dict[SegmentAddress, int]:
        """Return where segments would be gone on with if all readers were lost."""
        known = dict(self.unassigned)
        for owned in self.assigned.values():
            known.update(owned)
        return known

    def owned_by(self, reader: str) -> Offsets:
        """Return the segments of a reader. Raises PreconditionError: it is not online."""
        owned = self.assigned.get(reader)
        if owned is None:
            raise PreconditionError(f"reader {reader} is not online")
        return owned


def apply(state: GroupState, update: Update | GroupState) -> GroupState:
    """Return the state behind an update.

    Raises:
        PreconditionError: the update does not fit.
    """
    return _EFFECTS[type(update)](state, update)


def _begin(_: GroupState, update: StateInit) -> GroupState:
    return GroupState.begin(update)


def _add_reader(state: GroupState, update: AddReader) -> GroupState:
    reader = update.reader
    if reader in state.assigned:
        raise PreconditionError(f"reader {reader} is online already")
    return replace(
        state,
        assigned={**state.assigned, reader: {}},
        distances={reader: UNKNOWN_DISTANCE, **state.distances},
    )


def _remove_reader(state: GroupState, update: RemoveReader) -> GroupState:
    reader = update.reader
    owned = state.assigned.get(reader, {})
    final = {segment: update.offsets.get(segment, offset) for segment, offset in owned.items()}
    return replace(
        state,
        assigned=_without(state.assigned, reader),
        unassigned={**state.unassigned, **final},
        distances=_without(state.distances, reader),
        checkpoints=state.checkpoints.on_reader_left(reader, final),
    )


def _release(state: GroupState, update: ReleaseSegment) -> GroupState:
    segment = update.segment
    left = _without_owned(state, update.reader, segment)
    known = segment in state.last_read
    return replace(
        state,
        assigned={**state.assigned, update.reader: left},
        unassigned={**state.unassigned, segment: update.offset},
        last_read={**state.last_read, segment: update.offset} if known else state.last_read,
    )


def _acquire(state: GroupState, update: AcquireSegment) -> GroupState:
    owned, segment = state.owned_by(update.reader), update.segment
    if segment not in state.unassigned:
        raise PreconditionError(
            f"segment {segment.name} cannot be acquired: it has a reader, or is not known"
        )
    return replace(
        state,
        assigned={**state.assigned, update.reader: {**owned, segment: state.unassigned[segment]}},
        unassigned=_without(state.unassigned, segment),
    )


def _update_distance(state: GroupState, update: UpdateDistanceToTail) -> GroupState:
    """It is appended without a look at the state, so that the reader may not be online any more."""
    known = {segment: at for segment, at in update.last_read.items() if segment in state.last_read}
    ranges = {segment: each for segment, each in update.ranges.items() if segment in known}
    return replace(
        state,
        distances={**state.distances, update.reader: max(DISTANCE_MIN, update.distance)},
        last_read={**state.last_read, **known},
        ranges={**state.ranges, **ranges},
    )


def _complete(state: GroupState, update: SegmentCompleted) -> GroupState:
    """A completed id leaves the sets of all streams: so it is for all clients, of groups with one stream."""
    segment = update.segment
    left = _without_owned(state, update.reader, segment)
    future = {each: frozenset(before) for each, before in update.successors.items()} | dict(state.future)
    future = {each: before - {segment.segment_id} for each, before in future.items()}
    begun = {each: 0 for each, before in future.items() if not before}
    return replace(
        state,
        assigned={**state.assigned, update.reader: left},
        future={each: before for each, before in future.items() if before},
        unassigned={**state.unassigned, **begun},
        last_read={**begun, **_without(state.last_read, segment)},
        ranges=_without({**state.ranges, **update.ranges}, segment),
    )


def _checkpoint_reader(state: GroupState, update: CheckpointReader) -> GroupState:
    owned = state.owned_by(update.reader)
    checkpoints = state.checkpoints.on_passed(update.name, update.reader, update.positions)
    if is_silent(update.name):
        return replace(state, checkpoints=checkpoints)
    moved = {segment: update.positions.get(segment, offset) for segment, offset in owned.items()}
    return replace(state, checkpoints=checkpoints, assigned={**state.assigned, update.reader: moved})


def _create_checkpoint(state: GroupState, update: CreateCheckpoint) -> GroupState:
    begun = state.checkpoints.begin(update.name, state.assigned, state.unassigned)
    return replace(state, checkpoints=begun)


def _clear_checkpoints(state: GroupState, update: ClearCheckpointsBefore) -> GroupState:
    return replace(state, checkpoints=state.checkpoints.clear_before(update.name))


def _published(state: GroupState, update: CheckpointPublished) -> GroupState:
    return replace(state, checkpoints=replace(state.checkpoints, is_published=update.is_published))


def _updating(state: GroupState, update: UpdatingConfig) -> GroupState:
    return replace(state, is_updating=update.is_updating)


def _drop_checkpoints(state: GroupState, _: RemoveOutstandingCheckpoints) -> GroupState:
    return replace(state, checkpoints=state.checkpoints.without_outstanding())


def _without(items: Mapping[Any, Any], key: object) -> dict[Any, Any]:
    return {each: item for each, item in items.items() if each != key}


def _without_owned(state: GroupState, reader: str, segment: SegmentAddress) -> dict[SegmentAddress, int]:
    owned = state.owned_by(reader)
    if segment not in owned:
        raise PreconditionError(f"segment {segment.name} is not one of reader {reader}")
    return _without(owned, segment)


_EFFECTS: Final[dict[type, Callable[[GroupState, Any], GroupState]]] = {
    StateInit: _begin,
    GroupState: lambda _, whole: whole,
    AddReader: _add_reader,
    RemoveReader: _remove_reader,
    ReleaseSegment: _release,
    AcquireSegment: _acquire,
    UpdateDistanceToTail: _update_distance,
    SegmentCompleted: _complete,
    CheckpointReader: _checkpoint_reader,
    CreateCheckpoint: _create_checkpoint,
    ClearCheckpointsBefore: _clear_checkpoints,
    CheckpointPublished: _published,
    UpdatingConfig: _updating,
    RemoveOutstandingCheckpoints: _drop_checkpoints,
}
