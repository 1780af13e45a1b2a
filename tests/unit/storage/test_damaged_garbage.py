"""Rows of garbage that are damaged: named, kept, and in nobody's way."""

import dataclasses
import logging

import pytest

from headrace.storage.chunks.config import SegmentStorageConfig
from tests.table_rows import storage_rows_of
from tests.unit.segmentstore.container.container_bench import Bench, append, read_all, until
from tests.unit.storage.test_much_garbage import Store


def damage(rows, key):
    rows[key] = rows[key][:-1] + bytes([rows[key][-1] ^ 1])


async def drop(storage, name, chunks):
    await storage.write(name, 0, [bytes(chunks)], create=True)
    names = [chunk.name for chunk in storage.chunks(name)]
    await storage.delete(name)
    return names


@pytest.mark.parametrize("gone", [False, True])
async def test_a_damaged_chunk_row_of_garbage_keeps_that_chunk_and_those_behind_it(caplog, gone):
    store = Store()
    storage = store.owner(1, rollover_bytes=1)
    runs = [await drop(storage, name, 5) for name in ("a", "b", "c")]
    rows, key = store.bounded.rows, f"c/{runs[1][2]}"
    if gone:
        del rows[key]
    else:
        damage(rows, key)
    for epoch in (1, 2):  # it is the same after a start
        storage = store.owner(epoch, rollover_bytes=1)
        caplog.clear()
        for _ in range(3):
            while await storage.garbage.collect():
                pass
        assert sorted(store.objects.objects) == sorted(runs[1][2:])
        assert len(store.bounded.keys("g/")) == 1
        said = [record.message for record in caplog.records if record.levelno == logging.ERROR]
        assert len(said) == 1, "once, not at every look"
        assert "damaged data" in said[0]
        assert repr(key) in said[0]
        statistics = storage.statistics()
        assert (statistics.garbage_runs, statistics.garbage_runs_damaged) == (0, 1)
    await drop(storage, "d", 3)
    assert await storage.garbage.collect() == 3


async def test_a_damaged_garbage_row_keeps_its_objects_and_nobody_from_being_stored(caplog):
    store = Store()
    storage = store.owner(1, rollover_bytes=1)
    kept, dropped = await drop(storage, "a", 2), await drop(storage, "b", 2)
    damage(store.bounded.rows, "g/0000000000000000")
    storage = store.owner(2, rollover_bytes=1)
    more = await drop(storage, "c", 2)
    assert await storage.garbage.collect() == 4
    assert sorted(store.objects.objects) == sorted(kept)
    assert store.bounded.keys("g/") == ["g/0000000000000000"], "and its number was not used again"
    assert [r.message for r in caplog.records if "g/0000000000000000" in r.message]
    assert {*dropped, *more}.isdisjoint(store.objects.objects)


async def test_damaged_runs_do_not_count_for_the_bound_behind_which_truncations_wait():
    store = Store()
    storage = store.owner(1, garbage_runs_max=2, garbage_delay_s=0.0)
    for name in ("a", "b"):
        (chunk,) = await drop(storage, name, 1)
        damage(store.bounded.rows, f"c/{chunk}")
    assert await storage.garbage.collect() == 0
    for name in ("c", "d"):
        await drop(storage, name, 1)
    assert await storage.garbage.collect() == 2


@pytest.mark.slow
async def test_a_container_with_damaged_garbage_stays_and_starts_again():
    bench = Bench()
    writing = dataclasses.replace(bench.config.storage_writer, garbage_interval_s=0.01)
    storing = SegmentStorageConfig(rollover_bytes=16, block_bytes=16, garbage_delay_s=0.0)
    bench.config = dataclasses.replace(bench.config, storage_writer=writing, storage=storing)
    container = await bench.start()
    await container.create("s/a", {})
    await append(container, "s/a", b"abc" * 16)
    await container.flush_storage()
    rows = await storage_rows_of(container)
    for key in list(rows):
        if key.startswith("c/"):
            damage(rows, key)
            await container.tiers.table_rows.commit({key: rows[key]})
    await container.delete(await container.resolve("s/a"))
    await container.flush_storage()
    await container.log.write_checkpoint()
    for name in ("s/b", "s/c"):
        await container.create(name, {})
        await append(container, name, b"kept")
        await container.flush_storage()
        storage = container.tiers.storage
        await until(lambda found=storage: found.statistics().garbage_runs_damaged)
        assert await read_all(container, name) == b"kept"
        assert not bench.failures
        container = await bench.start()
    await bench.stop()
