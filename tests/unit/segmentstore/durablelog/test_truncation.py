"""A checkpoint is a place to cut the log at once its end, and all before it, is stored."""

from headrace.segmentstore.durablelog.truncation import Checkpoint, TruncationPoints

FIRST, SECOND = Checkpoint(20, 100, 10), Checkpoint(40, 300, 30)


def test_the_log_is_cut_only_in_front_of_a_checkpoint_whose_end_is_stored():
    points = TruncationPoints()
    points.add(FIRST)
    points.add(SECOND)
    found = {sequence: points.find(sequence) for sequence in (10, 19, 20, 30, 39, 40, 50)}
    assert found == {10: None, 19: None, 20: FIRST, 30: FIRST, 39: FIRST, 40: SECOND, 50: SECOND}
    points.on_truncated(FIRST)
    assert (points.find(39), points.find(40)) == (None, SECOND)
