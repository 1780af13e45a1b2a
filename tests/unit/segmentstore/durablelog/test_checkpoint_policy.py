"""When a checkpoint is due."""

from headrace.segmentstore.durablelog.checkpoint_policy import CheckpointPolicy


def frames_until_due(policy, size_bytes):
    count = 1
    while not policy.on_frame(size_bytes):
        count += 1
    return count


def test_a_checkpoint_is_due_after_so_many_frames_or_bytes_whichever_comes_first():
    assert frames_until_due(CheckpointPolicy(100, 1000), 1) == 100
    assert frames_until_due(CheckpointPolicy(100, 1000), 100) == 10


def test_a_checkpoint_starts_the_count_anew():
    policy = CheckpointPolicy(100, 1000)
    frames_until_due(policy, 100)
    policy.on_begin()
    assert frames_until_due(policy, 100) == 10


def test_checkpoints_larger_than_the_bounds_do_not_follow_one_another_without_end():
    policy = CheckpointPolicy(10, 1000)
    written = checkpoints = 0
    for _ in range(3000):
        written += 100
        if policy.on_frame(100):
            policy.on_begin()
            for _ in range(50):  # a checkpoint five times as large as its bounds
                policy.on_frame(100)
            policy.on_end(50, 5000)
            checkpoints += 1
    assert 1 < checkpoints * 5000 <= written


def frames_until_departures_make_it_due(policy, size_bytes, each, before=0):
    count = 1
    while not policy.on_frame(size_bytes, before + count * each):
        count += 1
    return count


def test_departures_make_it_due_and_are_counted_from_its_beginning_on():
    policy = CheckpointPolicy(1000, 10**9, retired_max=100)
    assert frames_until_departures_make_it_due(policy, 10, 2) == 50
    policy.on_begin(100)
    policy.on_end(1, 10)
    assert frames_until_departures_make_it_due(policy, 10, 4, before=100) == 25


def test_departures_ask_for_no_more_checkpoints_than_half_of_what_is_written():
    policy = CheckpointPolicy(1000, 10**9, retired_max=10)
    policy.on_begin()
    policy.on_end(50, 5000)
    assert frames_until_departures_make_it_due(policy, 100, 10) == 50
