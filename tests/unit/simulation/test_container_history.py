"""What the judge leaves out of a period in which two owners were at work."""

import pytest

from headrace.testing.history import Operation, Outcome
from tests.simulation.models.container_calls import (
    CreateSegmentCall,
    LengthAnswer,
    MergeSegmentsCall,
    ReadSegmentCall,
)
from tests.simulation.models.container_history import judgeable


def operations(*calls):
    """Return operations that happened one after the other."""
    return [
        Operation(
            "c",
            call,
            2 * number,
            2.0 * number,
            outcome=Outcome.OK,
            ended=2 * number + 1,
            result=LengthAnswer(5),
        )
        for number, call in enumerate(calls)
    ]


MERGE = MergeSegmentsCall("s", "t")
LOOK = ReadSegmentCall("s", 0, 10, wait=False)


@pytest.mark.parametrize("contested", [False, True])
def test_changes_are_judged_whoever_answers_and_looks_only_of_one_owner(contested):
    """A former owner may look at old things; it acknowledges nothing, and repeats no acknowledgement."""
    calls = [CreateSegmentCall("t"), MERGE, LOOK, MERGE, CreateSegmentCall("t"), LOOK]
    judged = [operation.call for operation in judgeable(operations(*calls), contested=contested)]
    assert judged == [call for call in calls if not (contested and call is LOOK)]


def test_a_refusal_is_judged_only_of_one_owner():
    refused = operations(CreateSegmentCall("t"))
    refused[0].outcome, refused[0].reason = Outcome.REFUSED, "SegmentExists"
    assert len(judgeable(refused, contested=False)) == 1
    assert judgeable(refused, contested=True) == []
