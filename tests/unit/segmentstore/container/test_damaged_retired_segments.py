"""Segments that are gone and whose rows of the catalogue are damaged stay in memory, and no others."""

import asyncio
import dataclasses

import pytest

from headrace.model.tables import TableEntry
from tests.unit.segmentstore.container.container_bench import Bench, until

COUNT = 600
"""So many are forgotten in several portions."""

NAMES = [f"s/{number}" for number in range(COUNT)]
DAMAGED = NAMES[3], NAMES[100], NAMES[300]
CATALOGUE = "_system/containers/metadata_0"
RETRY_S = 0.2


async def put_row(container, name, row):
    await container.tables.update(CATALOGUE, [TableEntry(name.encode(), row)])


@pytest.mark.slow
async def test_segments_with_damaged_rows_keep_no_others_and_are_looked_at_by_each_owner(caplog, monkeypatch):
    bench = Bench(active_segments_max=10_000, eviction_batch=10_000)
    writer = dataclasses.replace(bench.config.storage_writer, retry_max_s=RETRY_S)
    bench.config = dataclasses.replace(bench.config, storage_writer=writer)
    container = await bench.start()
    await asyncio.gather(*(container.create(name, {}) for name in NAMES))
    await bench.evict(*NAMES)
    segments = {name: await container.resolve(name) for name in NAMES}
    for name in DAMAGED:
        row = bytearray(segments[name].catalogue_row)
        row[-1] ^= 1
        await put_row(container, name, bytes(row))
    await asyncio.gather(*map(container.delete, segments.values()))
    await container.log.write_checkpoint()  # the log is cut behind the deletions
    retired = container.state.retired
    await until(lambda: len(retired) == len(DAMAGED))
    assert {state.name for state in retired} == set(DAMAGED)
    assert container.segment_statistics().catalogue_rows == len(DAMAGED)
    assert all(repr(name) in caplog.text for name in DAMAGED)

    asked = []
    get = container.tables.get

    async def count(segment, keys, *args):
        asked.append(len(keys))
        return await get(segment, keys, *args)

    monkeypatch.setattr(container.tables, "get", count)
    end = asyncio.get_running_loop().time() + 3 * RETRY_S
    cuts = 0
    while asyncio.get_running_loop().time() < end:
        begin = await container.log.write_checkpoint()
        await until(lambda begin=begin: container.log.truncated_sequence >= begin)
        cuts += 1
    assert cuts > 10
    assert not asked, "not at each cut of the log"

    for name in DAMAGED:
        await put_row(container, name, segments[name].catalogue_row)
    container = await bench.start()
    retired = container.state.retired
    await container.log.write_checkpoint()
    await until(lambda: not retired)
    assert container.segment_statistics().catalogue_rows == 0
    await bench.stop()


async def test_a_damaged_row_of_one_that_is_gone_does_not_keep_a_stop_from_leaving_a_short_log():
    bench = Bench()
    writer = dataclasses.replace(bench.config.storage_writer, stop_flush_s=5.0)
    bench.config = dataclasses.replace(bench.config, storage_writer=writer)
    container = await bench.start()
    await container.create("s/gone", {})
    await bench.evict("s/gone")
    gone = await container.resolve("s/gone")
    await put_row(container, "s/gone", b"damaged")
    await container.delete(gone)
    await container.flush_storage()
    await bench.stop()
    assert container.log.is_truncated
    container = await bench.start()
    assert [state.name for state in container.state.retired] == ["s/gone"]
    await bench.stop()
