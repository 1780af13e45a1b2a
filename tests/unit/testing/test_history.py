import json

import pytest

from headrace.errors import ConnectionLostError, SegmentSealedError, ThrottledError
from headrace.testing.history import NEVER, History, Outcome
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


def sample():
    clock = iter(range(100))
    history = History(lambda: float(next(clock)))
    first = history.start("w1", AppendCall("s", b"abc", "w1", 0))
    second = history.start("w2", AppendCall("s", b"de", expected_offset=3))
    history.succeed(first, AppendResult(3))
    history.fail(second, ConnectionLostError("gone"))
    read = history.start("r", ReadCall("s", 0))
    history.succeed(read, ReadResult(b"abcde"))
    seal = history.start("a", SealCall("s"))
    history.succeed(seal)
    late = history.start("w1", AppendCall("s", b"x"))
    history.fail(late, SegmentSealedError("s"))
    history.start("a", TruncateCall("t", 5))
    info = history.start("a", InfoCall("s"))
    history.succeed(info, InfoResult(5, 0, True))
    return history


def test_families_of_errors_become_outcomes():
    history = History(lambda: 0.0)
    for error, outcome, reason in (
        (ConnectionLostError(), Outcome.UNKNOWN, "ConnectionLost"),
        (SegmentSealedError("s"), Outcome.REFUSED, "SegmentSealed"),
        (ThrottledError(), Outcome.REFUSED, "Throttled"),
    ):
        operation = history.start("c", InfoCall("s"))
        history.fail(operation, error)
        assert (operation.outcome, operation.reason) == (outcome, reason)


def test_an_unknown_outcome_never_ends_even_when_the_client_gave_up():
    history = sample()
    lost = history.operations[1]
    assert lost.outcome is Outcome.UNKNOWN
    assert lost.ended == NEVER
    assert lost.ended_at is not None


def test_a_history_is_the_same_after_writing_and_reading():
    history = sample()
    again = History.from_lines(history.to_lines())
    assert list(again.to_lines()) == list(history.to_lines())
    fields = [(o.client, o.call, o.outcome, o.result, o.reason) for o in history.operations]
    assert [(o.client, o.call, o.outcome, o.result, o.reason) for o in again.operations] == fields
    for one, other in zip(history.operations, again.operations, strict=True):
        overlaps = [o.started < one.ended and one.started < o.ended for o in history.operations]
        assert overlaps == [o.started < other.ended and other.started < o.ended for o in again.operations]


def test_lines_that_are_no_history_are_refused():
    with pytest.raises(ValueError, match="unknown kind"):
        History.from_lines([json.dumps({"start": 0, "client": "c", "at": 0, "kind": "jump", "segment": "s"})])


def test_operations_are_grouped_by_segment():
    assert {name: len(found) for name, found in sample().by_segment().items()} == {"s": 6, "t": 1}


def test_an_operation_describes_itself():
    assert (
        str(sample().operations[0])
        == "[1-3] w1: append 3 bytes 616263 as w1#0 -> ok AppendResult(length_after=3)"
    )
