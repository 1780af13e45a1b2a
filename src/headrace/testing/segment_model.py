"""What a segment is, to its clients: the sequential object of which every history must be a linearisation.

A state is the length with a chained hash of everything appended, the start offset, whether it is sealed,
and the last event number of each writer. ``step`` says which states may follow an operation with a
certain answer; no state means that a correct segment could not have answered so.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Final

from headrace.testing.history import Operation, Outcome
from headrace.testing.known_content import KnownContent
from headrace.testing.segment_calls import (
    AppendCall,
    AppendResult,
    InfoCall,
    InfoResult,
    ReadCall,
    ReadResult,
    SealCall,
    TruncateCall,
)


@dataclass(frozen=True, slots=True, eq=False)
class Appended:
    """The last append of a segment, and through ``before`` all of them."""

    before: Appended | None = field(repr=False)
    offset: int
    data: bytes = field(repr=False)
    hash: bytes
    """Chained: of the hash before and the data."""

    @property
    def length(self) -> int:
        """Length of the segment behind it."""
        return self.offset + len(self.data)


@dataclass(frozen=True, slots=True, eq=False)
class SegmentModelState:
    """A segment between two operations."""

    last: Appended | None = None
    start_offset: int = 0
    sealed: bool = False
    numbers: dict[str, int] = field(default_factory=dict)

    @property
    def length(self) -> int:
        return 0 if self.last is None else self.last.length

    @property
    def key(self) -> tuple[object, ...]:
        """Equal for states that no operation can distinguish."""
        digest = b"" if self.last is None else self.last.hash
        return self.length, digest, self.start_offset, self.sealed, tuple(sorted(self.numbers.items()))

    def content(self, offset: int, count: int) -> bytes:
        """Return up to ``count`` bytes from ``offset``."""
        pieces: list[bytes] = []
        end = min(offset + count, self.length)
        node = self.last
        while node is not None and node.length > offset:
            if node.offset < end:
                pieces.append(node.data[max(0, offset - node.offset) : end - node.offset])
            node = node.before
        return b"".join(reversed(pieces))


INITIAL: Final = SegmentModelState()

#: Reasons of refusal which say something about the segment, and what they say; any other is always possible.
_SEALED: Final = "SegmentSealed"
_MISMATCH: Final = "OffsetMismatch"
_TRUNCATED: Final = "SegmentTruncated"


class SegmentModel:
    """The rules of one segment, with what reads have shown of its content.

    The content is a shortcut, not a rule: an append that would put other bytes where a read has seen some is
    refused at once, not when the search comes to that read. Bytes of a segment never change.
    """

    def __init__(self, content: KnownContent | None = None) -> None:
        self._content = content

    def step(self, state: SegmentModelState, operation: Operation) -> SegmentModelState | None:
        """Return the state after ``operation`` took effect here, or None if it cannot have, given its
        answer.
        """
        call, result = operation.call, operation.result
        if self._content is not None and isinstance(call, ReadCall) and isinstance(result, ReadResult):
            # Every append behind ``state`` agrees with what this read saw: only its place is in question.
            return state if _is_readable(state, call, result) else None
        after = step(state, operation)
        if after is None or self._content is None or after.last is state.last or after.last is None:
            return after
        return after if self._content.agrees(after.last.offset, after.last.data) else None


def step(state: SegmentModelState, operation: Operation) -> SegmentModelState | None:
    """Return the state after ``operation`` took effect here, or None if it cannot have, given its answer."""
    if operation.outcome is Outcome.REFUSED:
        return state if _may_refuse(state, operation) else None
    call, result = operation.call, operation.result
    if isinstance(call, AppendCall):
        assert result is None or isinstance(result, AppendResult)
        return _append(state, call, result)
    if isinstance(call, SealCall):
        if state.sealed:
            return state
        return SegmentModelState(state.last, state.start_offset, True, state.numbers)
    if isinstance(call, TruncateCall):
        if call.offset > state.length:
            return None
        if call.offset <= state.start_offset:
            return state
        return SegmentModelState(state.last, call.offset, state.sealed, state.numbers)
    if operation.outcome is Outcome.UNKNOWN:
        return state  # its answer was not seen
    if isinstance(call, ReadCall):
        assert isinstance(result, ReadResult)
        seen = state.content(call.offset, len(result.data)) if _is_readable(state, call, result) else None
        return state if seen == result.data else None
    assert isinstance(call, InfoCall)
    assert isinstance(result, InfoResult)
    answer = result.length, result.start_offset, result.sealed
    return state if answer == (state.length, state.start_offset, state.sealed) else None


def shows_in_state(operation: Operation) -> bool:
    """Say whether the state shows that the operation has happened, so that it cannot happen again.

    All do but appends without an event number.
    """
    return not isinstance(operation.call, AppendCall) or operation.call.event_number is not None


def _append(
    state: SegmentModelState, call: AppendCall, result: AppendResult | None
) -> SegmentModelState | None:
    number = call.event_number
    if number is not None and state.numbers.get(call.writer, -1) >= number:
        return state  # a repetition: acknowledged, without effect
    if state.sealed:
        return None
    if call.expected_offset is not None and call.expected_offset != state.length:
        return None
    length_after = None if result is None else result.length_after
    if length_after is not None and length_after != state.length + len(call.data):
        return None
    before = b"" if state.last is None else state.last.hash
    digest = hashlib.blake2b(before + call.data, digest_size=16).digest()
    last = Appended(state.last, state.length, call.data, digest)
    numbers = state.numbers if number is None else {**state.numbers, call.writer: number}
    return SegmentModelState(last, state.start_offset, state.sealed, numbers)


def _may_refuse(state: SegmentModelState, operation: Operation) -> bool:
    call, reason = operation.call, operation.reason
    if reason == _SEALED:
        return state.sealed
    if reason == _MISMATCH:
        assert isinstance(call, AppendCall)
        return call.expected_offset != state.length
    if reason == _TRUNCATED:
        assert isinstance(call, (ReadCall, TruncateCall))
        return call.offset < state.start_offset or call.offset > state.length
    return True


def _is_readable(state: SegmentModelState, call: ReadCall, result: ReadResult) -> bool:
    """Say whether so many bytes could be read there, whatever they are."""
    end = call.offset + len(result.data)
    if call.offset < state.start_offset or end > state.length:
        return False
    if result.end_of_segment and not (state.sealed and end == state.length):
        return False
    return bool(result.data) or call.offset == state.length
