"""Steps of zeroing: small beside a quiet log, as large as they may be beside a busy one."""

import pytest

from headrace.limits import KIB, MIB
from headrace.wal.file.zero_steps import STEP_BYTES_MIN, ZeroSteps


def run(steps, share, count, written=0):
    """Have ``count`` steps, during each of which records of ``share`` of its size are placed."""
    sizes = []
    for _ in range(count):
        size = steps.begin(written)
        sizes.append(size)
        written += int(size * share)
        steps.end(written)
    return sizes


def test_a_quiet_log_has_small_steps():
    assert set(run(ZeroSteps(4 * MIB), 1 / 64, 20)) == {STEP_BYTES_MIN}


def test_they_grow_while_the_log_is_as_fast_and_shrink_when_it_is_not():
    steps = ZeroSteps(4 * MIB)
    assert run(steps, 1.0, 6) == [256 * KIB, 512 * KIB, MIB, 2 * MIB, 4 * MIB, 4 * MIB]
    assert run(steps, 1 / 8, 3) == [4 * MIB] * 3  # in between they stay
    assert run(steps, 0, 6) == [4 * MIB, 2 * MIB, MIB, 512 * KIB, 256 * KIB, 256 * KIB]


@pytest.mark.parametrize("bytes_max", [4 * KIB, 8 * KIB, 256 * KIB])
def test_no_step_is_larger_than_it_may_be(bytes_max):
    assert set(run(ZeroSteps(bytes_max), 1.0, 5) + run(ZeroSteps(bytes_max), 0, 5)) == {bytes_max}


@pytest.mark.parametrize("bytes_max", [260 * KIB, 1004 * KIB, 12 * MIB])
def test_steps_are_whole_blocks_whatever_the_largest_is(bytes_max):
    steps = ZeroSteps(bytes_max)
    sizes = run(steps, 1.0, 10) + run(steps, 0, 10)
    assert max(sizes) == bytes_max
    assert not any(size % (4 * KIB) for size in sizes)
