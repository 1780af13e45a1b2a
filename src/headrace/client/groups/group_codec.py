"""Updates and states of reader groups in bytes, as all clients of the protocol write them. Pure.

Every revision of an object is written; those that an older client left out are read as what they were then.

Source: protocol, "Updates: byte formats and exact effects" and "Initial states: byte formats";
``docs/formats/reader-group.md``; pinned by ``tests/golden/test_reader_group.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from headrace.client.groups.checkpoint_state import CheckpointState, Offsets
from headrace.client.groups.config_codec import decode_config, encode_config
from headrace.client.groups.group_state import GroupState
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
from headrace.errors import InvalidArgumentError
from headrace.model.key_space import KeyRange
from headrace.model.names import find_stream_segment
from headrace.model.reader_group import ReaderGroupConfig
from headrace.model.versioned import (
    VersionedReader,
    encode_bool,
    encode_bytes,
    encode_collection,
    encode_double,
    encode_long,
    encode_map,
    encode_object,
    encode_text,
)

_UNKNOWN_BOUND: Final = -1.0
_INIT: Final = 0
_WHOLE: Final = 1


class GroupCodec:
    """What a synchronizer needs of the state of a group."""

    __slots__ = ()

    def encode(self, value: Update | GroupState) -> bytes:
        """Return the bytes of an update, or of a whole state."""
        return encode_state(value) if isinstance(value, GroupState) else encode_update(value)

    def decode_update(self, data: bytes) -> Update | GroupState:
        """Return the update, or the state in place of all before. Raises InvalidArgumentError."""
        return decode(data)

    def decode_state(self, data: bytes) -> GroupState:
        """Return the state that an entry begins with. Raises InvalidArgumentError."""
        decoded = decode(data)
        if isinstance(decoded, StateInit):
            return GroupState.begin(decoded)
        if not isinstance(decoded, GroupState):
            raise InvalidArgumentError(f"no state begins with {type(decoded).__name__}")
        return decoded


def decode(data: bytes | memoryview) -> Update | GroupState:
    """Return what bytes begin with; other clients leave zeros behind a state.

    Raises:
        InvalidArgumentError: they are none, or of a client that knows more.
    """
    kind, version, revisions = VersionedReader(data).kind_and_envelope()
    if version != 0 or 0 not in revisions or kind not in _READ:
        raise InvalidArgumentError(f"unknown version {version} of an update of kind {kind}")
    return _READ[kind](revisions)


def encode_update(update: Update) -> bytes:
    kind, write = _WRITE[type(update)]
    return encode_object(0, *write(update), kind=kind)


def encode_state(state: GroupState) -> bytes:
    """Return a whole state: as the beginning of a group as long as it is one."""
    init = StateInit(state.config, state.unassigned, state.ends, state.ranges, state.is_updating)
    return encode_update(init) if GroupState.begin(init) == state else _encode_whole(state)


# ------------------------------------------------------------------------------ pieces


def _encode_segment(segment: SegmentAddress) -> bytes:
    return encode_text(segment.name)


def _encode_offsets(offsets: Offsets) -> bytes:
    return encode_map(offsets, _encode_segment, encode_long)


def _encode_range(key_range: KeyRange | None) -> bytes:
    if key_range is None:
        return encode_double(_UNKNOWN_BOUND) + encode_double(_UNKNOWN_BOUND)
    return encode_double(key_range.low) + encode_double(key_range.high)


def _encode_ranges(segments: Iterable[SegmentAddress], ranges: Ranges) -> bytes:
    return encode_map({each: ranges.get(each) for each in segments}, _encode_segment, _encode_range)


def _encode_ranged_offsets(offsets: Offsets, ranges: Ranges) -> bytes:
    def segment(each: SegmentAddress) -> bytes:
        return _encode_segment(each) + _encode_range(ranges.get(each))

    return encode_map(offsets, segment, encode_long)


def _encode_ids(ids: Iterable[int]) -> bytes:
    return encode_collection(sorted(ids), encode_long)


def _encode_texts(texts: Iterable[str]) -> bytes:
    return encode_collection(texts, encode_text)


def _encode_config(config: ReaderGroupConfig) -> bytes:
    return encode_bytes(encode_config(config))


def _read_segment(part: VersionedReader) -> SegmentAddress:
    name = part.text()
    found = find_stream_segment(name) or find_stream_segment(name + ".#epoch.0")
    if found is None:
        raise InvalidArgumentError(f"{name!r} is no segment of a stream")
    return SegmentAddress(*found)


def _read_offsets(part: VersionedReader) -> dict[SegmentAddress, int]:
    return part.map(lambda: _read_segment(part), part.int64)


def _read_range(part: VersionedReader) -> KeyRange | None:
    low, high = part.double(), part.double()
    return None if low < 0 or high < 0 else KeyRange(low, high)


def _read_ranges(part: VersionedReader) -> dict[SegmentAddress, KeyRange]:
    found = part.map(lambda: _read_segment(part), lambda: _read_range(part))
    return {segment: each for segment, each in found.items() if each is not None}


def _read_ranged_offsets(
    part: VersionedReader,
) -> tuple[dict[SegmentAddress, int], dict[SegmentAddress, KeyRange]]:
    found = part.map(lambda: (_read_segment(part), _read_range(part)), part.int64)
    ranges = {segment: each for segment, each in found if each is not None}
    return {segment: offset for (segment, _), offset in found.items()}, ranges


def _read_config(part: VersionedReader) -> ReaderGroupConfig:
    return decode_config(part.block())


def encode_checkpoints(state: CheckpointState) -> bytes:
    """Return the checkpoints of a whole state."""
    first = (
        _encode_texts(state.names)
        + encode_map(state.pending, encode_text, lambda readers: _encode_texts(sorted(readers)))
        + encode_map(state.positions, encode_text, _encode_offsets)
        + _encode_offsets(state.last)
    )
    return encode_object(0, first, encode_bool(state.is_published))


def decode_checkpoints(data: bytes | memoryview) -> CheckpointState:
    """Return the checkpoints of a whole state. Raises InvalidArgumentError."""
    version, revisions = VersionedReader(data).envelope()
    if version != 0 or 0 not in revisions:
        raise InvalidArgumentError(f"unknown version {version} of the checkpoints of a reader group")
    part = revisions[0]
    return CheckpointState(
        tuple(part.collection(part.text)),
        part.map(part.text, lambda: frozenset(part.collection(part.text))),
        part.map(part.text, lambda: _read_offsets(part)),
        _read_offsets(part),
        1 in revisions and revisions[1].flag(),
    )


# ------------------------------------------------------------------------------ whole states


def _write_init(update: StateInit) -> tuple[bytes, ...]:
    first = _encode_config(update.config) + _encode_offsets(update.starts) + _encode_offsets(update.ends)
    return first, _encode_ranged_offsets(update.starts, update.ranges), encode_bool(update.is_updating)


def _read_init(revisions: Mapping[int, VersionedReader]) -> StateInit:
    part = revisions[0]
    config, starts, ends = _read_config(part), _read_offsets(part), _read_offsets(part)
    ranges: dict[SegmentAddress, KeyRange] = {}
    if 1 in revisions:
        starts, ranges = _read_ranged_offsets(revisions[1])
    return StateInit(config, starts, ends, ranges, 2 in revisions and revisions[2].flag())


def _encode_whole(state: GroupState) -> bytes:
    first = (
        _encode_config(state.config)
        + encode_bytes(encode_checkpoints(state.checkpoints))
        + encode_map(state.distances, encode_text, encode_long)
        + encode_map(state.future, _encode_segment, _encode_ids)
        + encode_map(state.assigned, encode_text, _encode_offsets)
        + _encode_offsets(state.unassigned)
        + _encode_offsets(state.ends)
    )
    mentioned = dict.fromkeys([*state.offsets(), *state.future, *state.last_read, *state.ranges])
    second = _encode_offsets(state.last_read) + _encode_ranges(mentioned, state.ranges)
    return encode_object(0, first, second, encode_bool(state.is_updating), kind=_WHOLE)


def _read_whole(revisions: Mapping[int, VersionedReader]) -> GroupState:
    part, second = revisions[0], revisions.get(1)
    return GroupState(
        config=_read_config(part),
        checkpoints=decode_checkpoints(part.block()),
        distances=part.map(part.text, part.int64),
        future=part.map(lambda: _read_segment(part), lambda: frozenset(part.collection(part.int64))),
        assigned=part.map(part.text, lambda: _read_offsets(part)),
        unassigned=_read_offsets(part),
        ends=_read_offsets(part),
        last_read={} if second is None else _read_offsets(second),
        ranges={} if second is None else _read_ranges(second),
        is_updating=2 in revisions and revisions[2].flag(),
    )


# ------------------------------------------------------------------------------ updates


def _write_remove(update: RemoveReader) -> tuple[bytes, ...]:
    return (encode_text(update.reader) + _encode_offsets(update.offsets),)


def _write_release(update: ReleaseSegment) -> tuple[bytes, ...]:
    return (encode_text(update.reader) + _encode_segment(update.segment) + encode_long(update.offset),)


def _write_acquire(update: AcquireSegment) -> tuple[bytes, ...]:
    return (encode_text(update.reader) + _encode_segment(update.segment),)


def _write_distance(update: UpdateDistanceToTail) -> tuple[bytes, ...]:
    first = encode_text(update.reader) + encode_long(update.distance)
    return first, _encode_ranged_offsets(update.last_read, update.ranges)


def _write_completed(update: SegmentCompleted) -> tuple[bytes, ...]:
    first = encode_text(update.reader) + _encode_segment(update.segment)
    successors = encode_map(update.successors, _encode_segment, _encode_ids)
    return first + successors, _encode_ranges((update.segment, *update.successors), update.ranges)


def _write_checkpoint_reader(update: CheckpointReader) -> tuple[bytes, ...]:
    return (encode_text(update.name) + encode_text(update.reader) + _encode_offsets(update.positions),)


def _read_remove(revisions: Mapping[int, VersionedReader]) -> RemoveReader:
    part = revisions[0]
    return RemoveReader(part.text(), _read_offsets(part))


def _read_release(revisions: Mapping[int, VersionedReader]) -> ReleaseSegment:
    part = revisions[0]
    return ReleaseSegment(part.text(), _read_segment(part), part.int64())


def _read_acquire(revisions: Mapping[int, VersionedReader]) -> AcquireSegment:
    part = revisions[0]
    return AcquireSegment(part.text(), _read_segment(part))


def _read_distance(revisions: Mapping[int, VersionedReader]) -> UpdateDistanceToTail:
    part = revisions[0]
    last_read, ranges = _read_ranged_offsets(revisions[1]) if 1 in revisions else ({}, {})
    return UpdateDistanceToTail(part.text(), part.int64(), last_read, ranges)


def _read_completed(revisions: Mapping[int, VersionedReader]) -> SegmentCompleted:
    part = revisions[0]
    reader, segment = part.text(), _read_segment(part)
    successors = part.map(lambda: _read_segment(part), lambda: tuple(part.collection(part.int64)))
    ranges = _read_ranges(revisions[1]) if 1 in revisions else {}
    return SegmentCompleted(reader, segment, successors, ranges)


def _read_checkpoint_reader(revisions: Mapping[int, VersionedReader]) -> CheckpointReader:
    part = revisions[0]
    return CheckpointReader(part.text(), part.text(), _read_offsets(part))


_Write = tuple[int, Callable[[Any], tuple[bytes, ...]]]
_WRITE: Final[dict[type, _Write]] = {
    StateInit: (_INIT, _write_init),
    AddReader: (2, lambda update: (encode_text(update.reader),)),
    RemoveReader: (3, _write_remove),
    ReleaseSegment: (4, _write_release),
    AcquireSegment: (5, _write_acquire),
    UpdateDistanceToTail: (6, _write_distance),
    SegmentCompleted: (7, _write_completed),
    CheckpointReader: (8, _write_checkpoint_reader),
    CreateCheckpoint: (9, lambda update: (encode_text(update.name),)),
    ClearCheckpointsBefore: (10, lambda update: (encode_text(update.name),)),
    CheckpointPublished: (11, lambda update: (encode_bool(update.is_published),)),
    UpdatingConfig: (12, lambda update: (encode_bool(update.is_updating),)),
    RemoveOutstandingCheckpoints: (13, lambda _: (b"",)),
}
_READ: Final[dict[int, Callable[[Mapping[int, VersionedReader]], Update | GroupState]]] = {
    _INIT: _read_init,
    _WHOLE: _read_whole,
    2: lambda revisions: AddReader(revisions[0].text()),
    3: _read_remove,
    4: _read_release,
    5: _read_acquire,
    6: _read_distance,
    7: _read_completed,
    8: _read_checkpoint_reader,
    9: lambda revisions: CreateCheckpoint(revisions[0].text()),
    10: lambda revisions: ClearCheckpointsBefore(revisions[0].text()),
    11: lambda revisions: CheckpointPublished(revisions[0].flag()),
    12: lambda revisions: UpdatingConfig(revisions[0].flag()),
    13: lambda _: RemoveOutstandingCheckpoints(),
}
