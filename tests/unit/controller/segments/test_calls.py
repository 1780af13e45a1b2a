"""Calls about many segments are few, and may be repeated."""

import pytest

from headrace.controller.segments.calls import SegmentCalls
from headrace.errors import ContainerOfflineError, NoSuchSegmentError
from headrace.limits import BULK_NAMES_MAX
from headrace.runtime.entropy import SeededEntropy
from tests.unit.controller.segment_stores import FakeSegmentStores


@pytest.fixture
def stores():
    return FakeSegmentStores()


@pytest.fixture
def calls(stores):
    return SegmentCalls(stores, SeededEntropy(1))


def names(count):
    return [f"s/t/{number}.#epoch.0" for number in range(count)]


async def test_facts_of_many_segments_are_in_order_with_holes(stores, calls):
    await calls.create(names(3))
    stores.write(names(3)[2], b"abc")
    await calls.delete([names(3)[1]])
    found = await calls.find(names(4))
    assert [facts and facts.length for facts in found] == [0, None, 3, None]
    with pytest.raises(NoSuchSegmentError):
        await calls.info(names(2))


async def test_many_segments_are_deleted_with_few_calls(stores, calls):
    many = names(2 * BULK_NAMES_MAX + 1)
    await calls.create(many[::2])
    await calls.delete(many)
    assert not stores.segments
    assert stores.calls["delete_segments"] == 3
    assert await calls.find(many) == [None] * len(many)
    assert stores.calls["segment_infos"] == 3


async def test_a_batch_that_fails_on_the_way_is_repeated(stores, calls):
    await calls.create(names(5))
    struck = []

    async def fault(call, segment):
        if call == "delete_segment" and segment == names(5)[3] and not struck:
            struck.append(segment)
            raise ContainerOfflineError("the container moves")

    stores.fault = fault
    await calls.delete(names(5))
    assert struck
    assert not stores.segments
