"""What a request has looked up is moved, truncated or void before the request goes on."""

from __future__ import annotations

import asyncio

import pytest

from headrace.errors import DataCorruptionError, StorageWriteError, TableKeyVersionError, ThrottledError
from headrace.model.tables import TableKey
from headrace.segmentstore.tables.config import TablesConfig, UnindexedConfig
from headrace.segmentstore.tables.entry_format import encode_entries
from headrace.segmentstore.tables.index_note import IndexNote, encode_note
from headrace.segmentstore.tables.locations import pack_location
from headrace.segmentstore.tables.state import Batch
from tests.simulation.worlds.memory_indexes import MemoryRoot
from tests.simulation.worlds.memory_segments import MemorySegments
from tests.simulation.worlds.tables import tables_on
from tests.unit.segmentstore.tables.test_index_rounds import filled, indexed
from tests.unit.segmentstore.tables.test_tables import T, all_keys, entry, start, turns


async def with_copies(access):
    """A table whose keys ``a`` and ``b`` are copies at the end of its log, and their versions."""
    tables = tables_on(access, TablesConfig(compaction_bytes_max=50))
    await tables.create(T)
    versions = await tables.update(T, [entry("a", b"x" * 20), entry("b", b"y" * 20)])
    for number in range(12):
        await tables.update(T, [entry("busy", b"%30d" % number)])
        await turns()
    assert access.get_segment(T).start_offset > max(versions)
    return tables, versions


async def test_a_condition_does_not_fail_because_compaction_moves_its_entry_meanwhile():
    """Only the log has the version of a copy. While it is read, the copy is copied again and truncated."""
    access = MemorySegments()
    tables, (version, _) = await with_copies(access)
    slow = access.hold_reads = asyncio.Event()
    judged = start(tables.update(T, [entry("a", b"new", version)]))
    refused = start(tables.remove(T, [TableKey(b"a", version + 1)]))
    await turns()
    assert not judged.done()
    access.hold_reads = None  # the reads under way stay slow
    before = access.get_segment(T).start_offset
    for number in range(12):
        await tables.update(T, [entry("busy", b"%30d" % number)])
        await turns()
    assert access.get_segment(T).start_offset > before + 100
    slow.set()
    assert len(await judged) == 1
    with pytest.raises(TableKeyVersionError):
        await refused
    await tables.close()


async def test_a_condition_does_not_wait_for_a_copy_that_the_log_refuses():
    """The version of ``a`` is read from the log, that of ``b`` comes with its copy in flight, which never
    comes to be.
    """
    access = MemorySegments()
    tables, versions = await with_copies(access)
    table = await tables._tables.get(T)
    data, _ = encode_entries([entry("b", b"y" * 20, versions[1])], copies=True)
    tail = table.state.tail
    copy = pack_location(tail, len(data), copy=True)
    batch = Batch(tail, tail + len(data), [table.tree_keys.of(b"b")], [copy], {tail: versions[1]})
    queue = access.suspend_appends = asyncio.Event()
    copying = start(table.append(batch, data))
    slow = access.hold_reads = asyncio.Event()
    judged = start(tables.update(T, [entry("a", b"new", versions[0]), entry("b", b"new", versions[1])]))
    await turns()
    access.hold_reads, access.suspend_appends, access.refuse_next = None, None, ThrottledError("full")
    queue.set()
    with pytest.raises(ThrottledError):
        await copying
    slow.set()
    await turns()
    assert judged.done()
    assert len(judged.result()) == 2
    await tables.close()


async def test_an_index_that_leads_in_front_of_the_log_is_corruption():
    """Else a get would look again for ever, and the loop stand still."""
    access = MemorySegments()
    tables = await filled(access, indexed(entries_max=1))
    await access.truncate(access.get_segment(T), 40)
    index = access.disks[T].index
    end = access.get_segment(T).durable_length
    copies = {key: pack_location(value >> 16, 21, copy=True) for key, value in index.root.tree.items()}
    index.root = MemoryRoot(copies, encode_note(IndexNote(end, 0)))
    access.evict(T)
    for request in (
        tables.get(T, [b"k0", b"k1"]),
        tables.entries(T, b"", 10),
        tables.keys(T, b"", 10),
        tables.update(T, [entry("k0", b"", 0)]),
    ):
        with pytest.raises(DataCorruptionError):
            await asyncio.wait_for(request, 5)
    await tables.close()


async def test_a_page_does_not_show_what_a_void_table_believes():
    """An update that is given up makes the table void that another one was built upon. Others come in its
    place, so the void table takes it for durable, and an iteration that waits for the root of the index
    would show it.
    """
    access = MemorySegments()
    tables = tables_on(access, indexed(entries_max=1, retry_s=1e6))
    await tables.create(T)
    access.indexes.fail_next = StorageWriteError("outcome unknown")
    await tables.update(T, [entry("there", b"v")])
    await turns()
    writes = access.indexes.hold_writes = asyncio.Event()
    held = access.indexes.hold_reads = asyncio.Event()
    page = start(tables.keys(T, b"", 10))
    await turns()
    access.suspend_appends = asyncio.Event()
    never = start(tables.update(T, [entry("never", b"v")]))
    built_upon = start(tables.update(T, [entry("later", b"v")]))
    await turns()
    never.cancel()
    await turns()
    queue, access.suspend_appends = access.suspend_appends, None
    queue.set()
    access.indexes.hold_reads = None
    await built_upon
    held.set()
    keys, _ = await page
    assert b"never" not in {item.key for item in keys}
    access.indexes.hold_writes = None
    writes.set()
    assert await all_keys(tables) == [b"later", b"there"]
    await tables.close()


async def test_a_log_of_dead_entries_alone_is_indexed_before_it_is_too_long():
    """A large update and its removal become durable at once, before there is an index: nothing is left to
    write to one, and all of the log is too much for it to lack. Updates would be refused for ever.
    """
    access = MemorySegments(auto_commit=False)
    unindexed = UnindexedConfig(bytes_max=100, wait_s=1.0)
    tables = tables_on(access, TablesConfig(unindexed=unindexed, compaction_bytes_max=50))
    calls = [start(tables.create(T))]
    await turns()
    access.commit()
    calls += [
        start(tables.update(T, [entry("k", bytes(500))])),
        start(tables.remove(T, [TableKey(b"k")])),
    ]
    await turns()
    access.commit()
    await asyncio.gather(*calls)
    access.auto_commit = True
    await tables.update(T, [entry("k", b"v")])
    tables.drop(T)
    await tables.update(T, [entry("m", b"v")])
    assert await all_keys(tables) == [b"k", b"m"]
    await tables.close()


async def test_others_get_their_turn_while_keys_that_the_index_lacks_are_counted():
    access = MemorySegments()
    tables = await filled(access, indexed(entries_max=10_000), 10_000)
    access.indexes.is_cold = False
    lookups = []
    index = access.indexes.get(access.find_segment(T))
    look_up = index.lookup

    async def counting(keys):
        lookups.append(len(keys) // 16)
        return await look_up(keys)

    index.lookup = counting
    await tables.update(T, [entry(f"k{n}", b"w") for n in range(5_000, 14_000)])
    assert (await tables.info(T)).entry_count == 14_000
    assert sum(lookups) == 9_000
    assert max(lookups) <= 1024
    await tables.close()
