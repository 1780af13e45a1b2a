"""Which ranges one task reads: bounds of their number, and nothing lost, doubled or out of order."""

import random

import pytest

from headrace.errors import InvalidArgumentError
from headrace.limits import MIB
from headrace.spark.options import parse_source
from headrace.spark.range_groups import PartitionBounds, SegmentRange, cut_targets, group_ranges
from tests.unit.spark.test_sources import _fill, _read, _schema, _source, _stream_reader, world  # noqa: F401


def _ranges(*sizes):
    return [SegmentRange("s", "t", number, 100, 100 + size) for number, size in enumerate(sizes)]


@pytest.mark.parametrize(
    ("bounds", "size", "count"),
    [
        (PartitionBounds(parallelism=2), 5, 2),
        (PartitionBounds(parallelism=2), 640 * MIB, 10),
        (PartitionBounds(high=4, parallelism=2), 640 * MIB, 4),
        (PartitionBounds(high=4, parallelism=64), 5, 4),
        (PartitionBounds(low=8, parallelism=2), 5, 8),
        (PartitionBounds(), 0, 1),
    ],
)
def test_a_read_has_a_partition_for_each_core_and_more_where_it_is_large(bounds, size, count):
    assert bounds.count_for(size) == count


def test_groups_are_even_and_hold_each_range_once_in_order():
    chance = random.Random(1)
    for _ in range(200):
        ranges = _ranges(*(chance.randrange(1, 1000) for _ in range(chance.randrange(30))))
        count = chance.randrange(1, 8)
        groups = group_ranges(ranges, count)
        assert len(groups) == min(count, len(ranges))
        assert sorted((each for group in groups for each in group), key=ranges.index) == ranges
        for group in groups:
            assert [each.segment_id for each in group] == sorted(each.segment_id for each in group)
        sizes = [sum(each.size for each in group) for group in groups]
        if sizes:
            assert max(sizes) - min(sizes) <= max(each.size for each in ranges)


def test_ranges_are_cut_until_there_are_enough():
    for sizes in ((100,), (3, 1000), (50, 50, 50), (1,)):
        ranges = _ranges(*sizes)
        targets = cut_targets(ranges, 7)
        assert sum(map(len, targets)) + len(ranges) >= 7
        for each, inside in zip(ranges, targets, strict=True):
            assert inside == sorted(inside)
            assert all(each.start <= target < each.end for target in inside)
    assert cut_targets(_ranges(5, 5), 2) == [[], []]
    assert cut_targets([], 4) == []


def test_sixteen_segments_are_read_by_as_many_partitions_as_there_are_cores(world):  # noqa: F811
    model, _ = world
    model.scale([0], [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (5, 6), (6, 7), (7, 8)])
    _fill(model, 80)
    for options, count in (({"max_partitions": "3"}, 3), ({"max_partitions": "50"}, 8)):
        source = _source(**options)
        reader = source.reader(_schema(source))
        found = _read(reader, reader.partitions())
        assert len(found) == count
        assert sorted(event for part in found for event in part) == [
            (key, number) for key in range(8) for number in range(10)
        ]


@pytest.mark.parametrize("size", [20, 133])
def test_a_segment_is_cut_between_events_for_more_partitions(world, size):  # noqa: F811
    model, client = world
    client.block_bytes = 70
    _fill(model, 100, size)
    source = _source(min_partitions="8")
    reader = source.reader(_schema(source))
    found = _read(reader, reader.partitions())
    assert len(found) == 8
    assert max(map(len, found)) <= 14
    assert sorted(event for part in found for event in part) == sorted(
        (index % 8, index // 8) for index in range(100)
    )
    reader = _stream_reader(start_stream_cut="earliest", min_partitions="3", key_order="none")
    start = reader.latestOffset(reader.initialOffset(), reader.getDefaultReadLimit())
    end = reader.latestOffset(start, reader.getDefaultReadLimit())
    assert [len(part) for part in _read(reader, reader.partitions(start, end))] == [34, 33, 33]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"min_partitions": "4"}, "set key_order=none"),
        ({"minPartitions": "4", "key_order": "segment"}, "set key_order=none"),
        ({"min_partitions": "4", "max_partitions": "3", "key_order": "none"}, "larger than max_partitions"),
        ({"max_partitions": "0"}, "max_partitions is 0"),
    ],
)
def test_numbers_of_partitions_that_contradict_are_refused(options, sentence):
    with pytest.raises(InvalidArgumentError, match=sentence):
        parse_source({"scope": "s", "stream": "t", **options}, streaming=True)
