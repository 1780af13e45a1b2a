"""What a container is, to its clients: segments by name, and what every verb does to them.

A segment is its content with a chained hash, its start, whether it is sealed, and its attributes. ``step``
says which state follows an operation with a certain answer; no state means that a correct container
could not have answered so. A refusal is judged by computing what a correct container would have said.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from headrace.model import attributes as attr
from headrace.model.attributes import ATTRIBUTE_NULL, AttributeUpdate, UpdateKind
from headrace.testing.history import Operation, Outcome
from tests.simulation.models.container_calls import (
    AppendDataCall,
    CreateSegmentCall,
    DeleteSegmentCall,
    EnsureSealedCall,
    GetAttributeCall,
    LengthAnswer,
    MergeIfThereCall,
    MergeSegmentsCall,
    NextOwnerCall,
    ObserveAnswer,
    ObserveCall,
    ReadAnswer,
    ReadSegmentCall,
    SealSegmentCall,
    SegmentAnswer,
    SegmentInfoCall,
    TruncateSegmentCall,
    UpdateAttributesCall,
    ValueAnswer,
    describe_segment,
)

#: Attributes that a container sets itself at creation and no client here changes.
UNTOLD: Final = frozenset(
    {
        attr.CREATION_TIME,
        attr.CREATION_EPOCH,
        attr.SEGMENT_TYPE,
        attr.SCALE_POLICY_TYPE,
        attr.SCALE_POLICY_RATE,
        attr.ROLLOVER_SIZE,
    }
)


@dataclass(frozen=True, slots=True, eq=False)
class ModelSegment:
    """One segment between two operations."""

    pieces: tuple[bytes, ...] = ()
    length: int = 0
    digest: bytes = b""
    """Chained: of the digest before and each piece."""
    start: int = 0
    sealed: bool = False
    transient: bool = False
    attributes: Mapping[bytes, int] = field(default_factory=lambda: {attr.EVENT_COUNT: 0})
    key: tuple[object, ...] = ()

    def content(self, offset: int, count: int) -> bytes:
        """Return up to ``count`` bytes from ``offset``."""
        end = min(offset + count, self.length)
        found: list[bytes] = []
        at = self.length
        for piece in reversed(self.pieces):
            if at <= offset:
                break
            at -= len(piece)
            if at < end:
                found.append(piece[max(0, offset - at) : end - at])
        return b"".join(reversed(found))


def make_segment(
    pieces: tuple[bytes, ...],
    length: int,
    digest: bytes,
    start: int,
    sealed: bool,
    transient: bool,
    attributes: Mapping[bytes, int],
) -> ModelSegment:
    """Return a segment with its key: equal for segments that no operation can distinguish."""
    key = (length, digest, start, sealed, tuple(sorted(attributes.items())))
    return ModelSegment(pieces, length, digest, start, sealed, transient, attributes, key)


NEW: Final = make_segment((), 0, b"", 0, False, False, {attr.EVENT_COUNT: 0})
NEW_TRANSIENT: Final = make_segment((), 0, b"", 0, False, True, {attr.EVENT_COUNT: 0})


@dataclass(frozen=True, slots=True, eq=False)
class ModelContainer:
    """A container between two operations."""

    segments: Mapping[str, ModelSegment] = field(default_factory=dict)
    merged: frozenset[tuple[str, str]] = frozenset()
    """Sources whose merge this life remembers, with their targets, until either name is used again."""

    @property
    def key(self) -> object:
        """Equal for states that no operation can distinguish."""
        return self.merged, tuple(sorted((name, found.key) for name, found in self.segments.items()))

    def changed(self, name: str, segment: ModelSegment | None) -> ModelContainer:
        """Return the container with one segment set or removed."""
        segments = dict(self.segments)
        if segment is None:
            del segments[name]
        else:
            segments[name] = segment
        return ModelContainer(segments, self.merged)

    def next_life(self) -> ModelContainer:
        """Return what a new owner finds: transient segments and the memory of merges are gone."""
        if not self.merged and not any(found.transient for found in self.segments.values()):
            return self
        lasting = {name: found for name, found in self.segments.items() if not found.transient}
        return ModelContainer(lasting)

    def __str__(self) -> str:
        return ", ".join(
            f"{name} {describe_segment(found.start, found.length, found.sealed, found.attributes)}"
            for name, found in sorted(self.segments.items())
        )


def state_of(seen: ObserveAnswer) -> ModelContainer:
    """Return the state that was observed; what lies below a start offset is invisible."""
    segments = {}
    for name, found in seen.segments.items():
        facts = found.facts
        assert facts.attributes is not None
        attributes = {key: value for key, value in facts.attributes.items() if key not in UNTOLD}
        pieces = (bytes(facts.start_offset), found.data)
        segments[name] = make_segment(
            pieces, facts.length, b"seen", facts.start_offset, facts.sealed, False, attributes
        )
    return ModelContainer(segments)


class RefusedError(Exception):
    """A correct container would refuse, with this reason: the name of an error without ``Error``."""


def step(state: ModelContainer, operation: Operation) -> ModelContainer | None:
    """Return the state after ``operation`` took effect here, or None if it cannot have, given its answer."""
    call: Any = operation.call
    if operation.outcome is Outcome.REFUSED:
        return state if operation.reason in (_refusal(state, call), _waiter_refusal(state, call)) else None
    try:
        return _STEPS[type(call)](state, call, operation.result)
    except RefusedError:
        return None


def _refusal(state: ModelContainer, call: Any) -> str:
    """Return why a correct container refuses this call, or nothing if it does not.

    A refused merge may have sealed its source: that is an operation of its own in the history.
    """
    if isinstance(call, (MergeSegmentsCall, MergeIfThereCall)) and call.source in state.segments:
        state = state.changed(call.source, _sealed(state.segments[call.source]))
    if isinstance(call, ReadSegmentCall):
        return _read_refusal(state, call)
    try:
        _STEPS[type(call)](state, call, None)
    except RefusedError as refused:
        return str(refused)
    return ""


# ------------------------------------------------------------------------------------------ attributes


def evaluate(segment: ModelSegment, updates: Sequence[AttributeUpdate]) -> Mapping[bytes, int]:
    """Return the attributes behind all updates, or raise for the first that does not hold."""
    if not updates:
        return segment.attributes
    values = dict(segment.attributes)
    for update in updates:
        key, new = update.attribute_id, update.value
        existing = values.get(key, ATTRIBUTE_NULL)
        absent = existing == ATTRIBUTE_NULL
        if update.kind is UpdateKind.ACCUMULATE:
            new += 0 if absent else existing
        holds = {
            UpdateKind.SET_IF_ABSENT: absent,
            UpdateKind.REPLACE: True,
            UpdateKind.REPLACE_IF_GREATER: absent or new > existing,
            UpdateKind.ACCUMULATE: True,
            UpdateKind.REPLACE_IF_EQUALS: existing == update.expected,
        }[update.kind]
        if not holds:
            raise RefusedError("AttributeMismatch")
        if new == ATTRIBUTE_NULL:
            values.pop(key, None)
        else:
            values[key] = new
    return values


# ------------------------------------------------------------------------------------------ verbs


def _get(state: ModelContainer, name: str) -> ModelSegment:
    found = state.segments.get(name)
    if found is None:
        raise RefusedError("NoSuchSegment")
    return found


def _sealed(found: ModelSegment) -> ModelSegment:
    if found.sealed:
        return found
    return make_segment(
        found.pieces, found.length, found.digest, found.start, True, found.transient, found.attributes
    )


def _extended(
    found: ModelSegment, pieces: tuple[bytes, ...], attributes: Mapping[bytes, int]
) -> ModelSegment:
    length, digest = found.length, found.digest
    for piece in pieces:
        if piece:
            digest = hashlib.blake2b(digest + piece, digest_size=12).digest()
            length += len(piece)
    return make_segment(
        found.pieces + pieces, length, digest, found.start, found.sealed, found.transient, attributes
    )


def _create(state: ModelContainer, call: CreateSegmentCall, _: Any) -> ModelContainer:
    if call.segment in state.segments:
        raise RefusedError("SegmentExists")
    merged = frozenset(names for names in state.merged if call.segment not in names)
    created = state.changed(call.segment, NEW_TRANSIENT if call.transient else NEW)
    return ModelContainer(created.segments, merged)


def _delete(state: ModelContainer, call: DeleteSegmentCall, _: Any) -> ModelContainer:
    _get(state, call.segment)
    return state.changed(call.segment, None)


def _append(
    state: ModelContainer, call: AppendDataCall, answer: LengthAnswer | None
) -> ModelContainer | None:
    found = _get(state, call.segment)
    if found.sealed:
        raise RefusedError("SegmentSealed")
    attributes = evaluate(found, call.updates)
    if call.expected_offset >= 0 and call.expected_offset != found.length:
        raise RefusedError("OffsetMismatch")
    if answer is not None and answer.length is not None and answer.length != found.length + len(call.data):
        return None
    return state.changed(call.segment, _extended(found, (call.data,), attributes))


def _update(state: ModelContainer, call: UpdateAttributesCall, _: Any) -> ModelContainer:
    found = _get(state, call.segment)
    if found.sealed:
        raise RefusedError("SegmentSealed")
    return state.changed(call.segment, _extended(found, (), evaluate(found, call.updates)))


def _get_attribute(
    state: ModelContainer, call: GetAttributeCall, answer: ValueAnswer | None
) -> ModelContainer | None:
    value = _get(state, call.segment).attributes.get(call.attribute_id, ATTRIBUTE_NULL)
    return state if answer is None or answer.value == value else None


def _seal(state: ModelContainer, call: SealSegmentCall, answer: LengthAnswer | None) -> ModelContainer | None:
    found = _get(state, call.segment)
    if found.sealed:
        raise RefusedError("SegmentSealed")
    if answer is not None and answer.length is not None and answer.length != found.length:
        return None
    return state.changed(call.segment, _sealed(found))


def _ensure_sealed(state: ModelContainer, call: EnsureSealedCall, _: Any) -> ModelContainer:
    found = _get(state, call.segment)
    return state if found.sealed else state.changed(call.segment, _sealed(found))


def _truncate(state: ModelContainer, call: TruncateSegmentCall, _: Any) -> ModelContainer:
    found = _get(state, call.segment)
    if not found.start <= call.offset <= found.length:
        raise RefusedError("SegmentTruncated")
    if call.offset == found.start:
        return state
    return state.changed(
        call.segment,
        make_segment(
            found.pieces,
            found.length,
            found.digest,
            call.offset,
            found.sealed,
            found.transient,
            found.attributes,
        ),
    )


def _merge(
    state: ModelContainer, call: MergeSegmentsCall, answer: LengthAnswer | None
) -> ModelContainer | None:
    target = _get(state, call.segment)
    length_after = None if answer is None else answer.length
    source = state.segments.get(call.source)
    if source is None:
        if (call.source, call.segment) not in state.merged:
            raise RefusedError("NoSuchSegment")
        return state if length_after is None or length_after == target.length else None
    if target.sealed:
        raise RefusedError("SegmentSealed")
    if source.start:
        raise RefusedError("InvalidArgument")
    after = _extended(target, source.pieces, evaluate(target, call.updates))
    if length_after is not None and length_after != after.length:
        return None
    segments = dict(state.segments)
    segments[call.segment] = after
    del segments[call.source]
    return ModelContainer(segments, state.merged | {(call.source, call.segment)})


def _merge_if_there(
    state: ModelContainer, call: MergeIfThereCall, answer: LengthAnswer | None
) -> ModelContainer | None:
    if call.source not in state.segments:
        _get(state, call.segment)
        return ModelContainer(state.segments, state.merged)  # not the same: later the source may be there
    return _merge(state, MergeSegmentsCall(call.segment, call.source), answer)


def _next_owner(state: ModelContainer, _: NextOwnerCall, __: Any) -> ModelContainer:
    return state.next_life()


def _facts_fit(found: ModelSegment, answer: SegmentAnswer) -> bool:
    if (answer.start_offset, answer.length, answer.sealed) != (found.start, found.length, found.sealed):
        return False
    if answer.attributes is None:
        return True
    told = {key: value for key, value in answer.attributes.items() if key not in UNTOLD}
    untold = found.attributes.keys() - told.keys()
    if any(answer.is_whole or attr.is_core_attribute(key) for key in untold):
        return False
    return all(found.attributes.get(key, ATTRIBUTE_NULL) == value for key, value in told.items())


def _info(
    state: ModelContainer, call: SegmentInfoCall, answer: SegmentAnswer | None
) -> ModelContainer | None:
    found = _get(state, call.segment)
    return state if answer is None or _facts_fit(found, answer) else None


def _read(state: ModelContainer, call: ReadSegmentCall, answer: ReadAnswer | None) -> ModelContainer | None:
    found = _get(state, call.segment)
    if answer is None:
        return state
    end = call.offset + len(answer.data)
    if call.offset < found.start or len(answer.data) > call.length_max:
        return None
    if answer.data != found.content(call.offset, len(answer.data)):
        return None
    at_end = end >= found.length
    if (answer.at_tail, answer.end_of_segment) != (at_end and not found.sealed, at_end and found.sealed):
        return None
    # An empty answer is correct only where there is nothing, and not for a read that waits.
    return state if answer.data or (at_end and (found.sealed or not call.wait)) else None


def _read_refusal(state: ModelContainer, call: ReadSegmentCall) -> str:
    found = state.segments.get(call.segment)
    if found is None:
        return "NoSuchSegment"
    if call.offset < found.start:
        return "SegmentTruncated"
    if found.sealed and call.offset > found.length:
        return "InvalidArgument"
    # A read that waited at the tail is refused by the seal; a later one gets the end of the segment.
    return "SegmentSealed" if found.sealed and call.wait and call.offset == found.length else ""


def _waiter_refusal(state: ModelContainer, call: Any) -> str:
    """Return why a read that waits beyond the end is refused once the segment is sealed; else nothing."""
    found = state.segments.get(call.segment) if isinstance(call, ReadSegmentCall) and call.wait else None
    return "SegmentSealed" if found is not None and found.sealed and call.offset > found.length else ""


def _observe(state: ModelContainer, _: ObserveCall, answer: ObserveAnswer) -> ModelContainer | None:
    state = state.next_life()  # an owner that can be observed has begun by letting the stale ones go
    if answer.segments.keys() != state.segments.keys():
        return None
    for name, seen in answer.segments.items():
        found = state.segments[name]
        if not _facts_fit(found, seen.facts):
            return None
        if seen.data != found.content(found.start, found.length - found.start):
            return None
    return state


_STEPS: Final[dict[type[Any], Callable[[ModelContainer, Any, Any], ModelContainer | None]]] = {
    CreateSegmentCall: _create,
    DeleteSegmentCall: _delete,
    AppendDataCall: _append,
    UpdateAttributesCall: _update,
    GetAttributeCall: _get_attribute,
    SealSegmentCall: _seal,
    EnsureSealedCall: _ensure_sealed,
    TruncateSegmentCall: _truncate,
    MergeSegmentsCall: _merge,
    MergeIfThereCall: _merge_if_there,
    NextOwnerCall: _next_owner,
    SegmentInfoCall: _info,
    ReadSegmentCall: _read,
    ObserveCall: _observe,
}
