"""What is looked at before a batch of merges begins: it takes no long turn, and nothing of it is kept."""

import asyncio

import pytest

from headrace.errors import InvalidArgumentError
from headrace.model.names import transaction_segment_name
from headrace.runtime.entropy import SeededEntropy
from headrace.segmentstore.segment_names import SEGMENT_NAME_BYTES_MAX
from headrace.segmentstore.store import SegmentStore
from tests.unit.segmentstore.container.container_bench import Bench

TARGET = "sc/st/0.#epoch.0"


class Registry:
    """One container has everything; notes which names it had to find the container of."""

    def __init__(self, container):
        self.container = container
        self.asked = []

    def get(self, name):
        self.asked.append(name)
        return self.container


@pytest.fixture
async def bench():
    bench = Bench()
    yield bench
    await bench.stop()


@pytest.fixture
async def registry(bench):
    return Registry(await bench.start())


@pytest.fixture
async def store(registry):
    store = SegmentStore(registry, SeededEntropy(1))
    await store.create_segment(TARGET)
    registry.asked.clear()
    return store


async def test_a_source_whose_name_no_segment_can_have_is_refused_and_not_remembered(store, registry):
    """The container of 250 names of 64 KiB took 2 s of the loop; 65,536 of them were kept, 4 GiB."""
    names = [f"{number}".ljust(65_500, "n") for number in range(250)]
    with pytest.raises(InvalidArgumentError, match="65500 characters"):
        await store.merge_batch(TARGET, names)
    assert max(map(len, registry.asked)) <= SEGMENT_NAME_BYTES_MAX


async def test_transactions_of_the_target_need_no_look_for_their_container(store, registry):
    await store.merge_batch(TARGET, [transaction_segment_name(TARGET, number) for number in range(5000)])
    assert set(registry.asked) == {TARGET}


async def test_others_have_turns_while_containers_of_many_sources_are_looked_for(store, registry):
    turns = 0

    async def go_round():
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    others = asyncio.create_task(go_round())
    names = [f"sc/other/{number}.#epoch.0" for number in range(6400)]
    with pytest.raises(InvalidArgumentError, match="different containers"):
        await store.merge_batch(TARGET, [*names, "_system/containers/metadata_0"])
    assert registry.asked.count(names[-1]) == 1
    assert turns >= 100
    others.cancel()
