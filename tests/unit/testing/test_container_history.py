"""What the judge leaves out of a period in which two owners were at work."""

import pytest

from headrace.testing.container_calls import CreateSegmentCall, LengthAnswer, MergeSegmentsCall
from headrace.testing.container_history import judgeable
from headrace.testing.history import Operation, Outcome


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


@pytest.mark.parametrize(
    ("calls", "judged"),
    [
        ([MERGE], 1),
        ([MERGE, MERGE], 1),
        ([MERGE, MERGE, MERGE], 1),
        ([MERGE, MergeSegmentsCall("s", "u")], 2),
        ([MERGE, MergeSegmentsCall("u", "t")], 2),
        ([MERGE, CreateSegmentCall("t"), MERGE], 3),
        ([CreateSegmentCall("t"), MERGE, MERGE], 2),
    ],
)
def test_a_merge_that_was_made_before_is_a_look_where_two_owners_answer(calls, judged):
    assert len(judgeable(operations(*calls), contested=True)) == judged
    assert len(judgeable(operations(*calls), contested=False)) == len(calls)
