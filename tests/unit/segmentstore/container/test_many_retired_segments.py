"""Many segments with large rows of the catalogue that are deleted at about the same time."""

import asyncio
import dataclasses

import pytest

from headrace.limits import TABLE_BATCH_BYTES_MAX
from headrace.model.attributes import AttributeUpdate, UpdateKind
from headrace.segmentstore.container.segment_catalogue import catalogue_name
from tests.effort import soak
from tests.unit.segmentstore.container.container_bench import Bench, until

WRITERS = 2_400
ROW_BYTES = 26 * WRITERS
COUNT = TABLE_BATCH_BYTES_MAX // ROW_BYTES + 20
"""So many rows are more than one read of a table may ask for."""


@soak
@pytest.mark.slow
async def test_deleted_segments_are_forgotten_however_large_their_rows_are_together():
    bench = Bench(active_segments_max=10_000, eviction_batch=10_000)
    container = await bench.start()
    writers = [
        AttributeUpdate(number.to_bytes(16, "big"), UpdateKind.REPLACE, number)
        for number in range(1 << 40, (1 << 40) + WRITERS)
    ]
    names = [f"s/{number}" for number in range(COUNT)]
    for name in names:
        await container.update_attributes(await container.create(name, {}), writers)
    await bench.evict(*names)
    segments = [await container.resolve(name) for name in names]
    await asyncio.gather(*map(container.delete, segments))
    await container.log.write_checkpoint()  # the log is cut behind the deletions
    try:
        await until(lambda: all(state.stored_deleted for state in segments))
        await until(lambda: not container.state.retired)
        assert (await container.tables.info(catalogue_name(0))).entry_count == 0
    finally:
        await bench.stop()


@pytest.mark.slow
@pytest.mark.parametrize("way", ["deleted", "merged"])
async def test_segments_that_come_and_go_do_not_pile_up_until_the_log_is_long(way):
    bench = Bench()
    bench.config = dataclasses.replace(bench.config, checkpoint_departures=200)
    container = await bench.start()
    target = await container.create("s/target", {})
    most = 0
    for wave in range(30):
        names = [f"s/{wave}-{number}" for number in range(50)]
        segments = await asyncio.gather(*(container.create(name, {}) for name in names))
        if way == "deleted":
            await asyncio.gather(*map(container.delete, segments))
        else:
            await container.merge_batch(target, names)
        await asyncio.sleep(0.005)  # a log takes some time
        most = max(most, len(container.state.retired))
    assert container.log.statistics().checkpoints >= 3
    assert most < 600, "of 1,500"
    await bench.stop()


@pytest.mark.slow
async def test_many_that_are_gone_are_forgotten_in_many_turns():
    bench = Bench(active_segments_max=10_000)
    container = await bench.start()
    segments = await asyncio.gather(*(container.create(f"s/{number}", {}) for number in range(2000)))
    async with container._catalogue.changing:  # nobody is forgotten
        await asyncio.gather(*map(container.delete, segments))
        await until(lambda: all(state.stored_deleted for state in segments))
        retired = container.state.retired
        assert len(retired) == 2000
    most = 0
    while retired:
        before = len(retired)
        await asyncio.sleep(0)
        most = max(most, before - len(retired))
    assert most <= 2 * 256, "those of one turn, and the next"
    await bench.stop()
