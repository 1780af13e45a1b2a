"""What repeats is said once in a while, and no more things than a bound."""

from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.runtime.repeated_lines import RepeatedLines
from tests.effort import examples


def test_the_same_is_said_once_in_its_time_and_what_was_left_out_is_counted():
    lines = RepeatedLines(60.0, 10)
    assert [lines.due("a", now) for now in (0, 1, 59, 60)] == [0, None, None, 2]
    assert lines.due("b", 60) == 0


@settings(max_examples=examples(100))
@given(st.lists(st.tuples(st.integers(0, 20), st.sampled_from([0, 0, 0, 1, 30])), max_size=200))
def test_lines_are_bounded_in_number_and_nothing_is_left_out_uncounted(asked):
    lines, now, said, unsaid = RepeatedLines(60.0, 5), 0, [], 0
    for what, later in asked:
        now += later
        left_out = lines.due(what, now)
        recent = [each for each in said if now - each[1] < 60]
        expected = what not in [each for each, _ in recent] and len(recent) < 5
        assert (left_out is not None) == expected
        if left_out is None:
            unsaid += 1
        else:
            assert left_out == unsaid
            unsaid = 0
            said.append((what, now))
