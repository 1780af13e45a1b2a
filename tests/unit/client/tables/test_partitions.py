import pytest

from headrace.client.segment_map import SegmentRange
from headrace.client.tables.partitions import Partitions
from headrace.model.key_space import FULL_RANGE, split_evenly

# The places of these keys are those that the Java client computes: 0.627, 0.0116, 0.911, 0.787 and 0.120.
KEYS = [b"\x61", b"\x6b\x65\x79\x31", b"\x31\x32\x33\x34\x35\x36\x37\x38", b"\x00\x00\x00\x01", bytes(8)]


def partitions(count):
    ranges = split_evenly(FULL_RANGE, count)
    return Partitions(reversed([SegmentRange(100 + n, each) for n, each in enumerate(ranges)]))


@pytest.mark.parametrize(
    ("count", "owners"),
    [(1, [0, 0, 0, 0, 0]), (2, [1, 0, 1, 1, 0]), (4, [2, 0, 3, 3, 0]), (10, [6, 0, 9, 7, 1])],
)
def test_a_primary_key_belongs_to_one_partition(count, owners):
    of = partitions(count)
    assert of.segment_ids == [100 + n for n in range(count)]
    assert [of.segment_of(key) for key in KEYS] == [100 + n for n in owners]


def test_keys_are_spread():
    of = partitions(8)
    counts = {}
    for number in range(4000):
        segment = of.segment_of(b"%08d" % number)
        counts[segment] = counts.get(segment, 0) + 1
    assert len(counts) == 8
    assert min(counts.values()) > 400
