"""Attributes that have left the memory of a container, and callers that come late or from before."""

import asyncio
import dataclasses

import pytest

from headrace.errors import (
    ContainerOfflineError,
    FencedOutError,
    HeadraceError,
    NoSuchSegmentError,
    StorageReadError,
)
from headrace.model.attributes import ATTRIBUTE_NULL, AttributeUpdate, UpdateKind
from headrace.segmentstore.attributes.config import AttributesConfig
from tests.unit.segmentstore.container.container_bench import Bench, HeldWal, until

KEYS = tuple(bytes(15) + bytes((number,)) for number in range(20))


def make_bench():
    bench = Bench()
    config = AttributesConfig(flush_values=5, cached_values=2)
    bench.index_cache_bytes = 1  # each page is read
    bench.config = dataclasses.replace(bench.config, attributes=config)
    return bench


async def fill(bench, name="s/a"):
    """Create a segment whose attributes are in its index only."""
    container = bench.container
    segment = await container.create(name, {})
    values = {key: number for number, key in enumerate(KEYS, 1)}
    await container.update_attributes(segment, [set_to(*each) for each in values.items()])
    await container.tiers.index_writer.write(segment)
    assert not segment.attributes.newer
    assert len(segment.attributes.accepted) < len(KEYS)
    return segment


def set_to(key, value):
    return AttributeUpdate(key, UpdateKind.REPLACE, value)


async def test_a_caller_with_an_evicted_segment_spoils_nothing_for_those_behind_it():
    bench = make_bench()
    container = await bench.start()
    former = await fill(bench)
    await bench.evict("s/a")
    with pytest.raises(ContainerOfflineError, match="evicted"):
        await container.update_attributes(former, [AttributeUpdate(KEYS[4], UpdateKind.ACCUMULATE, 1)])
    segment = await container.resolve("s/a")
    await container.update_attributes(segment, [AttributeUpdate(KEYS[4], UpdateKind.ACCUMULATE, 1)])
    assert await container.read_attribute("s/a", KEYS[4]) == 6
    await bench.stop()


async def test_a_look_up_that_a_deletion_overtakes_finds_no_segment():
    bench = make_bench()
    container = await bench.start()
    segment = await fill(bench)
    target = container.target_of(segment)
    reading = [
        asyncio.ensure_future(container.read_attribute("s/a", KEYS[0])),
        asyncio.ensure_future(target.settle(KEYS[1])),
        asyncio.ensure_future(container.update_attributes(segment, [set_to(KEYS[2], 1)])),
    ]
    deleting = asyncio.ensure_future(container.delete(segment))
    for outcome in await asyncio.gather(*reading, return_exceptions=True):
        assert outcome is None or isinstance(outcome, int | NoSuchSegmentError)
    await deleting
    with pytest.raises(NoSuchSegmentError):
        await target.settle(KEYS[3])
    target.close()
    await bench.stop()


async def test_a_writer_is_set_up_while_its_segment_gets_its_first_index():
    bench = make_bench()
    wals = []
    bench.make_wal = lambda *args: wals.append(HeldWal(*args)) or wals[-1]
    container = await bench.start()
    segment = await container.create("s/a", {})
    await container.update_attributes(segment, [set_to(KEYS[0], 1)])
    target = container.target_of(segment)
    [wal] = wals
    wal.held = True
    updating = asyncio.ensure_future(container.update_attributes(segment, [set_to(KEYS[1], 1)]))
    settling = asyncio.ensure_future(target.settle(KEYS[2]))
    writing = asyncio.ensure_future(container.tiers.index_writer.write(segment))
    await until(lambda: segment.attributes.has_index)
    assert not settling.done()
    wal.go_on()
    await asyncio.gather(updating, settling, writing)
    assert target.last_event_number(KEYS[2]) == ATTRIBUTE_NULL
    target.close()
    await bench.stop()


async def test_an_index_that_cannot_be_read_refuses_what_needs_it_and_nothing_else():
    bench = make_bench()
    container = await bench.start()
    segment = await fill(bench)
    read = bench.chunks.read

    async def fail(*args, **options):
        raise StorageReadError("storage is away")

    bench.chunks.read = fail
    with pytest.raises(StorageReadError):
        await container.update_attributes(segment, [set_to(KEYS[0], 7)])
    await container.append(segment, b"event")
    bench.chunks.read = read
    assert await container.read_attribute("s/a", KEYS[0]) == 1
    await bench.stop()


async def test_an_owner_that_was_fenced_takes_what_its_successor_deleted_for_no_damage():
    bench = make_bench()
    former = await bench.start()
    await fill(bench)
    bench.container = None
    await bench.start()
    for name in [name for name in bench.chunks.objects if "index" in name]:
        await bench.chunks.delete(name)
    with pytest.raises(HeadraceError) as failure:
        await former.read_attribute("s/a", KEYS[0])
    assert isinstance(failure.value, FencedOutError | ContainerOfflineError)
    await former.stop()
    await bench.stop()


async def test_the_index_of_a_deleted_segment_is_deleted_and_a_new_one_knows_nothing_of_it():
    bench = make_bench()
    container = await bench.start()
    segment = await fill(bench)
    index = segment.index_storage_name
    assert container.tiers.storage.info_nowait(index) is not None
    await container.delete(segment)
    await container.create("s/a", {})
    assert await container.read_attribute("s/a", KEYS[0]) == ATTRIBUTE_NULL
    await bench.evict()
    await asyncio.sleep(1.0)
    assert container.tiers.storage.info_nowait(index) is None
    await bench.stop()


@pytest.mark.slow
async def test_data_of_a_server_that_had_no_indexes_is_read_and_moves_into_them():
    """Checkpoints and rows of the catalogue have all values of their segments there, in the same format."""
    bench, without = make_bench(), Bench()
    config, bench.config = bench.config, without.config  # so few values are not written to an index
    container = await bench.start()
    values = {bytes(12) + number.to_bytes(4, "big"): number for number in range(1, 601)}
    for name in ("s/active", "s/evicted"):
        segment = await container.create(name, {})
        for begin in range(0, len(values), 100):
            some = list(values.items())[begin : begin + 100]
            await container.update_attributes(segment, [set_to(*each) for each in some])
        if name == "s/evicted":
            await bench.evict(name)
    assert not container.tiers.index_writer.writes
    for config_of_owner in (bench.config, config, config):
        bench.config = config_of_owner
        container = await bench.start()
        for name in ("s/active", "s/evicted"):
            for key in list(values)[::9]:
                assert await container.read_attribute(name, key) == values[key]
        await asyncio.sleep(6.0)
        for name in ("s/active", "s/evicted"):
            attributes = (await container.resolve(name)).attributes
            assert attributes.has_index == (config_of_owner is config)
    await bench.stop()
