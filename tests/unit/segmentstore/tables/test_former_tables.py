"""Tables that are opened, indexed, compacted or deleted while work on what they were before goes on."""

from __future__ import annotations

import asyncio

import pytest

from headrace.errors import ContainerOfflineError, StorageWriteError, TableNotEmptyError
from headrace.model.tables import TableKey
from headrace.segmentstore.tables import log as table_log
from headrace.segmentstore.tables.config import TablesConfig, UnindexedConfig
from tests.simulation.worlds.memory_indexes import MemoryRoot
from tests.simulation.worlds.memory_segments import MemorySegments
from tests.simulation.worlds.tables import tables_on
from tests.unit.segmentstore.tables.test_index_rounds import filled, indexed
from tests.unit.segmentstore.tables.test_tables import T, all_keys, entry, start, turns


async def test_a_table_is_not_opened_beside_an_index_round_of_its_former_object():
    """The rest of that round would overwrite what rounds of the new object have written."""
    access = MemorySegments()
    tables = tables_on(access, indexed())
    await tables.create(T)
    held = access.indexes.hold_writes = asyncio.Event()
    await tables.update(T, [entry("k", b"old")])
    await turns()
    tables.drop(T)
    access.indexes.hold_writes = None
    update = start(tables.update(T, [entry("k", b"new")]))
    await turns()
    assert not update.done()
    held.set()
    await update
    await turns()
    tables.drop(T)
    assert [each.value for each in await tables.get(T, [b"k"])] == [b"new"]
    await tables.close()


async def test_a_table_is_not_opened_beside_a_compaction_of_its_former_object():
    """It might truncate what the new object has not replayed yet."""
    access = MemorySegments()
    tables = tables_on(access, TablesConfig(compaction_bytes_max=50))
    await tables.create(T)
    held = access.hold_reads = asyncio.Event()
    for number in range(5):
        await tables.update(T, [entry("k", b"%30d" % number)])
    await turns()
    tables.drop(T)
    access.hold_reads = None
    info = start(tables.info(T))
    await turns()
    assert not info.done()
    held.set()
    assert (await info).entry_count == 1
    await tables.close()


async def test_a_first_index_is_not_overtaken_by_a_truncation_that_began_before_it():
    """A stop after its first step would leave an index that ends in front of the log."""
    access = MemorySegments()
    access.indexes.keys_at_once = 1
    config = TablesConfig(compaction_bytes_max=50, unindexed=UnindexedConfig(entries_max=4))
    tables = tables_on(access, config)
    await tables.create(T)
    truncate, gate = access.truncate, asyncio.Event()
    write, writes = access.indexes.write, []

    async def truncate_later(*arguments):
        await gate.wait()
        await truncate(*arguments)

    async def write_once(apply):
        if writes:
            await asyncio.Event().wait()
        writes.append(access.get_segment(T).start_offset)
        await write(apply)

    access.truncate, access.indexes.write = truncate_later, write_once
    for number in range(5):
        await tables.update(T, [entry("busy", b"%30d" % number)])
    await turns()
    await tables.update(T, [entry(f"k{n}", b"v") for n in range(4)])
    await turns()
    gate.set()
    await turns()
    assert access.get_segment(T).start_offset > 0
    assert len(writes) == 1
    successor = tables_on(access.crash(), config)
    assert await all_keys(successor) == [b"busy", b"k0", b"k1", b"k2", b"k3"]
    await successor.close()
    await tables.close()


@pytest.mark.parametrize("steps", range(1, 9))
async def test_a_stop_while_a_log_without_an_index_gets_one_loses_nothing(steps, monkeypatch):
    monkeypatch.setattr(table_log, "SCAN_BYTES", 100)
    access = MemorySegments()
    tables = tables_on(access)
    await tables.create(T)
    await tables.update(T, [entry(f"k{n:02}", b"v") for n in range(40)])
    await tables.remove(T, [TableKey(b"k%02d" % n) for n in range(0, 40, 2)])
    await tables.close()
    access.disks[T].index.root = MemoryRoot()
    access = access.crash()
    access.indexes.keys_at_once = 2
    write, left = access.indexes.write, [steps]

    async def write_some(apply):
        if not left[0]:
            raise ContainerOfflineError("stopped")
        left[0] -= 1
        await write(apply)

    access.indexes.write = write_some
    tables = tables_on(access, indexed())
    with pytest.raises(ContainerOfflineError):
        await tables.info(T)
    await tables.close()
    tables = tables_on(access.crash(), indexed())
    assert await all_keys(tables) == [b"k%02d" % n for n in range(1, 40, 2)]
    await tables.close()


async def test_keys_are_not_counted_by_what_a_void_table_believes():
    """As pages: see ``test_index_races``. An update comes in the place of a removal of the same size."""
    access = MemorySegments()
    tables = tables_on(access, indexed(retry_s=1e6))
    await tables.create(T)
    access.indexes.fail_next = StorageWriteError("outcome unknown")
    await tables.update(T, [entry("there", b"v")])
    await turns()
    writes = access.indexes.hold_writes = asyncio.Event()
    held = access.indexes.hold_reads = asyncio.Event()
    info = start(tables.info(T))
    await turns()
    queue = access.suspend_appends = asyncio.Event()
    never = start(tables.remove(T, [TableKey(b"there")]))
    later = start(tables.update(T, [entry("later", b"")]))
    await turns()
    never.cancel()
    await turns()
    access.suspend_appends = access.indexes.hold_reads = None
    queue.set()
    await later
    held.set()
    assert (await info).entry_count in (1, 2)
    writes.set()
    await tables.close()


async def test_a_table_is_not_deleted_as_empty_if_a_key_comes_while_it_is_counted():
    access = MemorySegments()
    tables = await filled(access, indexed(entries_max=2), 2)
    writes = access.indexes.hold_writes = asyncio.Event()
    await tables.remove(T, [TableKey(b"k0"), TableKey(b"k1")])
    held = access.indexes.hold_reads = asyncio.Event()
    deletion = start(tables.delete(T, must_be_empty=True))
    await turns()
    await tables.update(T, [entry("new", b"v")])
    access.indexes.hold_reads = None
    held.set()
    with pytest.raises(TableNotEmptyError):
        await deletion
    writes.set()
    assert await all_keys(tables) == [b"new"]
    await tables.close()
