"""What can happen to the state of a reader group: values that all its clients exchange. Pure.

Source: protocol, "Updates: byte formats and exact effects".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from headrace.client.groups.checkpoint_state import Offsets
from headrace.client.segment_address import SegmentAddress
from headrace.model.key_space import KeyRange
from headrace.model.reader_group import ReaderGroupConfig

Ranges = Mapping[SegmentAddress, KeyRange]
"""Those that are known: the first segments of a group have none."""


@dataclass(frozen=True, slots=True)
class StateInit:
    """The group begins, or begins anew: without readers and checkpoints."""

    config: ReaderGroupConfig
    starts: Offsets
    ends: Offsets = field(default_factory=dict)
    """Where segments are not read on; 2**63-1 is where they are sealed."""
    ranges: Ranges = field(default_factory=dict)
    is_updating: bool = False


@dataclass(frozen=True, slots=True)
class AddReader:
    reader: str


@dataclass(frozen=True, slots=True)
class RemoveReader:
    """A reader leaves, or is put offline; the segments of which no offset is said go on where the state has
    them.
    """

    reader: str
    offsets: Offsets = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ReleaseSegment:
    reader: str
    segment: SegmentAddress
    offset: int


@dataclass(frozen=True, slots=True)
class AcquireSegment:
    reader: str
    segment: SegmentAddress


@dataclass(frozen=True, slots=True)
class UpdateDistanceToTail:
    """A reader says how much is in front of it; for others it is a sign of life as well."""

    reader: str
    distance: int
    last_read: Offsets = field(default_factory=dict)
    ranges: Ranges = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SegmentCompleted:
    """A reader has read a segment to its end; ``successors`` have their predecessors."""

    reader: str
    segment: SegmentAddress
    successors: Mapping[SegmentAddress, tuple[int, ...]]
    ranges: Ranges = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CheckpointReader:
    """A reader passes a checkpoint."""

    name: str
    reader: str
    positions: Offsets


@dataclass(frozen=True, slots=True)
class CreateCheckpoint:
    name: str


@dataclass(frozen=True, slots=True)
class ClearCheckpointsBefore:
    name: str


@dataclass(frozen=True, slots=True)
class CheckpointPublished:
    is_published: bool = True


@dataclass(frozen=True, slots=True)
class UpdatingConfig:
    """The group is being reset."""

    is_updating: bool


@dataclass(frozen=True, slots=True)
class RemoveOutstandingCheckpoints:
    pass


Update = (
    StateInit
    | AddReader
    | RemoveReader
    | ReleaseSegment
    | AcquireSegment
    | UpdateDistanceToTail
    | SegmentCompleted
    | CheckpointReader
    | CreateCheckpoint
    | ClearCheckpointsBefore
    | CheckpointPublished
    | UpdatingConfig
    | RemoveOutstandingCheckpoints
)
