"""Tables whose entries are in an index: what hides it, what races its rounds, when it cannot be written."""

from __future__ import annotations

import asyncio
from array import array

import pytest

from headrace.errors import (
    ContainerOfflineError,
    DataCorruptionError,
    StorageReadError,
    StorageWriteError,
    TableKeyMissingError,
    TableKeyVersionError,
    ThrottledError,
)
from headrace.limits import INT64_MIN
from headrace.model.attributes import TABLE_HASH_SEED
from headrace.model.tables import NOT_EXISTS, TableKey
from headrace.segmentstore.tables.config import TablesConfig, UnindexedConfig
from headrace.segmentstore.tables.index_note import IndexNote, encode_note
from tests.simulation.worlds.memory_indexes import MemoryRoot
from tests.simulation.worlds.memory_segments import MemorySegments
from tests.simulation.worlds.tables import tables_on
from tests.unit.segmentstore.tables.test_tables import T, all_keys, entry, replayed, start, turns


def indexed(entries_max=1, bytes_max=1 << 30, wait_s=0.0, retry_s=0.0, **settings):
    unindexed = UnindexedConfig(entries_max=entries_max, bytes_max=bytes_max, wait_s=wait_s, retry_s=retry_s)
    return TablesConfig(unindexed=unindexed, **settings)


@pytest.fixture
async def access():
    return MemorySegments()


async def filled(access, config, count=10):
    """A table with ``count`` keys that are all in its index, and none in memory."""
    tables = tables_on(access, config)
    await tables.create(T)
    await tables.update(T, [entry(f"k{n}", b"v%d" % n) for n in range(count)])
    await turns()
    assert tables.statistics().unindexed_keys == 0
    access.indexes.is_cold = True
    return tables


async def test_gets_conditions_and_counts_are_answered_by_the_index(access):
    tables = await filled(access, indexed())
    found = await tables.get(T, [b"k3", b"none"])
    assert [each and each.value for each in found] == [b"v3", None]
    assert (await tables.info(T)).entry_count == 10
    assert await all_keys(tables, 3) == [b"k%d" % n for n in range(10)]
    with pytest.raises(TableKeyVersionError):
        await tables.update(T, [entry("k3", b"w", NOT_EXISTS)])
    with pytest.raises(TableKeyMissingError):
        await tables.update(T, [entry("none", b"w", 5)])
    await tables.update(T, [entry("k3", b"w", found[0].version), entry("none", b"", NOT_EXISTS)])
    assert (await tables.get(T, [b"k3"]))[0].value == b"w"
    assert (await tables.info(T)).entry_count == 11
    tables.check()


async def test_what_needs_no_reading_is_answered_at_once(access):
    tables = await filled(access, indexed(entries_max=3))
    segment = access.find_segment(T)
    assert tables.get_nowait(T, [b"k1"], 1000) is None
    assert tables.contains_nowait(segment, b"k1") is None
    assert tables.count_max(segment) == 10
    access.indexes.is_cold = False
    assert tables.get_nowait(T, [b"k1"], 1000)[0].value == b"v1"
    assert tables.contains_nowait(segment, b"k1") is True
    assert tables.contains_nowait(segment, b"none") is False
    await tables.remove(T, [TableKey(b"k1")])
    assert tables.contains_nowait(segment, b"k1") is False
    assert tables.count_max(segment) == 10, "at most so many: the index still has it"
    await tables.remove(T, [TableKey(b"k2"), TableKey(b"k3")])
    await turns()
    assert tables.count_max(segment) == 7


async def test_an_unconditional_put_reads_nothing(access):
    tables = await filled(access, indexed(entries_max=3))
    access.indexes.fail_reads = StorageReadError("not now")
    await tables.update(T, [entry("k1", b"new")])
    assert (await tables.get(T, [b"k1"]))[0].value == b"new"
    with pytest.raises(StorageReadError):
        await tables.get(T, [b"k2"])


async def test_a_removal_hides_the_index_before_during_and_after_the_round_that_takes_it(access):
    tables = await filled(access, indexed(entries_max=2))
    await tables.remove(T, [TableKey(b"k1")])
    assert await tables.get(T, [b"k1"]) == [None]
    assert len(await all_keys(tables, 4)) == (await tables.info(T)).entry_count == 9
    held = access.indexes.hold_writes = asyncio.Event()
    await tables.remove(T, [TableKey(b"k2")])
    await turns()
    assert await tables.get(T, [b"k1", b"k2"]) == [None, None]
    assert len(await all_keys(tables, 4)) == (await tables.info(T)).entry_count == 8
    await tables.update(T, [entry("k1", b"again")])
    access.indexes.hold_writes = None
    held.set()
    await turns()
    assert tables.statistics().unindexed_keys == 1
    assert [each and each.value for each in await tables.get(T, [b"k1", b"k2"])] == [b"again", None]
    assert (await tables.info(T)).entry_count == 9
    assert {key: value for key, (value, _) in (await replayed(access)).items()}[b"k1"] == b"again"


async def test_what_was_looked_up_before_a_round_does_not_win_over_what_the_round_wrote(access):
    tables = await filled(access, indexed(entries_max=3))
    await tables.update(T, [entry("k9", b"again")])
    held = access.indexes.hold_reads = asyncio.Event()
    calls = [
        start(tables.get(T, [b"k1"])),
        start(tables.update(T, [entry("k1", b"", NOT_EXISTS)])),
        start(tables.info(T)),
        start(tables.entries(T, b"", 100)),
    ]
    await turns()
    access.indexes.hold_reads = None
    await tables.remove(T, [TableKey(b"k1"), TableKey(b"k2")])
    await turns()
    assert tables.statistics().unindexed_keys == 0
    held.set()
    got, updated, info, (page, _) = await asyncio.gather(*calls)
    assert got in ([None], [entry("k1", b"", updated[0])])
    assert info.entry_count in (8, 9)
    assert b"k2" not in {each.key for each in page}


async def test_opening_a_table_costs_what_is_behind_its_index(access):
    tables = await filled(access, indexed(entries_max=10), 1000)
    await tables.update(T, [entry("k7", b"new")])
    tables.drop(T)
    read_bytes = access.read_bytes
    assert (await tables.info(T)).entry_count == 1000
    assert access.read_bytes - read_bytes == 17 + 2 + 3
    assert (await tables.get(T, [b"k7"]))[0].value == b"new"


@pytest.mark.slow
async def test_a_long_log_without_an_index_gets_one_while_it_is_read(access):
    """As a data directory of the version before has it: no seed, nothing indexed."""
    tables = tables_on(access)
    await tables.create(T)
    del access.disks[T].attributes[TABLE_HASH_SEED]
    access.evict(T)
    for at in range(0, 40_000, 4_000):
        await tables.update(T, [entry(f"k{n}", b"v" * 10) for n in range(at, at + 4_000)])
    await tables.remove(T, [TableKey(b"k%d" % n) for n in range(0, 40_000, 100)])
    await tables.close()
    assert access.indexes.writes == 0 or access.disks[T].index.root.note
    access.disks[T].index.root = MemoryRoot()
    access = access.crash()
    tables = tables_on(access, indexed(entries_max=1000))
    assert (await tables.info(T)).entry_count == 39_600
    assert tables.statistics().unindexed_keys < 16_000  # what one piece of the log holds
    assert await tables.get(T, [b"k100"]) == [None]
    assert (await tables.get(T, [b"k101"]))[0].value == b"v" * 10
    await tables.close()


async def test_updates_wait_for_an_index_that_is_written_slowly_and_reads_go_on(access):
    tables = await filled(access, indexed(wait_s=60.0))
    held = access.indexes.hold_writes = asyncio.Event()
    for n in range(4):
        await tables.update(T, [entry(f"n{n}", b"v")])
    waiting = start(tables.update(T, [entry("late", b"v")]))
    await turns()
    assert not waiting.done()
    assert (await tables.get(T, [b"n2"]))[0].value == b"v"
    access.indexes.hold_writes = None
    held.set()
    await waiting
    assert (await tables.info(T)).entry_count == 15


async def test_updates_that_wait_for_an_index_are_refused_when_the_container_stops(access):
    tables = await filled(access, indexed(wait_s=60.0))
    access.indexes.hold_writes = asyncio.Event()
    for n in range(4):
        await tables.update(T, [entry(f"n{n}", b"v")])
    waiting = start(tables.update(T, [entry("late", b"v")]))
    await turns()
    await tables.close()
    with pytest.raises(ContainerOfflineError):
        await waiting


@pytest.mark.parametrize("late", [False, True])
async def test_updates_are_refused_while_the_index_cannot_be_written(access, late):
    tables = await filled(access, indexed(wait_s=0.5, retry_s=0.1))
    access.indexes.fails_late = late
    for n in range(4):
        access.indexes.fail_next = StorageWriteError("full")
        await tables.update(T, [entry(f"n{n}", b"v")])
        await turns()
    held = access.indexes.hold_writes = asyncio.Event()
    if not late:  # else each has happened all the same
        with pytest.raises(ThrottledError):
            await tables.update(T, [entry("late", b"v")])
    assert (await tables.get(T, [b"n2", b"late"]))[1] is None
    access.indexes.hold_writes, access.indexes.fail_next = None, None
    held.set()
    await tables.update(T, [entry("late", b"v")])
    assert (await tables.info(T)).entry_count == 15
    tables.check()
    assert len(await replayed(access)) == 15


async def test_compaction_reclaims_what_the_index_has_and_no_more(access):
    tables = tables_on(access, indexed(entries_max=3, compaction_bytes_max=200))
    await tables.create(T)
    model = {}
    for n in range(400):
        key = b"cold%d" % n if n < 20 else b"hot%d" % (n % 5)
        [version] = await tables.update(T, [entry(key, b"%d" % n)])
        model[key] = (b"%d" % n, version)
        await turns(5)
        note = access.disks[T].index.root.note
        assert not note or access.get_segment(T).start_offset <= int.from_bytes(note[1:9], "big")
    await turns(500)
    info = await tables.info(T)
    assert info.length - info.start_offset < 1500
    found = await tables.get(T, list(model))
    assert {item.key: (item.value, item.version) for item in found} == model
    assert await replayed(access) == model
    # Versions of copies are in the log only.
    await tables.update(T, [entry("cold0", b"new", model[b"cold0"][1])])
    with pytest.raises(TableKeyVersionError):
        await tables.remove(T, [TableKey(b"cold1", model[b"cold2"][1])])
    tables.check()


@pytest.mark.slow
@pytest.mark.parametrize("key_length", [0, 3])
async def test_a_crash_at_any_write_of_log_or_index_leaves_the_table_equal(access, key_length):
    """After each durable change of log or index, what a successor would find is compared."""
    access.auto_commit = False
    access.indexes.keys_at_once = 1
    tables = tables_on(access, indexed(entries_max=3, wait_s=60.0, compaction_bytes_max=200))
    model, seen = {}, set()

    async def run(request):
        task = start(request)
        while not task.done():
            await turns(2)
            access.commit(1)
            found = await replayed(access) if T in access.disks else {}
            assert {key: found.get(key) for key in model if key != touched} == {
                key: value for key, value in model.items() if key != touched
            }
            if T in access.disks:
                seen.add((access.disks[T].start_offset, access.indexes.writes))
        return await task

    touched = None
    await run(tables.create(T, key_length))
    for n in range(120):
        touched = b"k%02d" % (n % 7 if n % 3 else n % 40)
        if n % 11 == 5:
            await run(tables.remove(T, [TableKey(touched)]))
            model.pop(touched, None)
        else:
            [version] = await run(tables.update(T, [entry(touched, b"v%d" % n)]))
            model[touched] = (b"v%d" % n, version)
    assert len({start_offset for start_offset, _ in seen}) > 5
    assert len({writes for _, writes in seen}) > 20
    await tables.close()


async def test_keys_there_during_a_whole_iteration_come_exactly_once_while_rounds_run(access):
    tables = await filled(access, indexed(entries_max=5, wait_s=60.0), 50)
    seen, token, number = [], b"", 0
    while True:
        page, token = await tables.keys(T, token, 3)
        if not page:
            break
        seen += [item.key for item in page]
        number += 1
        await tables.update(T, [entry(f"new{number * 7 + n}", b"x") for n in range(4)])
        await tables.update(T, [entry(f"k{number * 11 % 50}", b"rewritten")])
        await tables.remove(T, [TableKey(b"new%d" % n) for n in range(number * 7)])
        if number % 3 == 0:
            tables.drop(T)
    assert {key for key in seen if key.startswith(b"k")} == {b"k%d" % n for n in range(50)}
    assert len(set(seen)) == len(seen)


async def test_an_index_that_leads_to_another_key_is_corruption(access):
    tables = await filled(access, indexed())
    tree = access.disks[T].index.root.tree
    first, second, *_ = sorted(tree)
    swapped = {**tree, first: tree[second], second: tree[first]}
    access.disks[T].index.root = MemoryRoot(swapped, access.disks[T].index.root.note)
    access.evict(T)
    with pytest.raises(DataCorruptionError):
        await tables.get(T, [b"k%d" % n for n in range(10)])
    with pytest.raises(DataCorruptionError):
        await tables.entries(T, b"", 10)


async def test_an_index_that_is_ahead_of_the_log_is_corruption(access):
    tables = await filled(access, indexed())
    access.disks[T].index.root = MemoryRoot({}, encode_note(IndexNote(1 << 40, 0)))
    access.evict(T)
    with pytest.raises(DataCorruptionError):
        await tables.get(T, [b"k1"])


async def test_the_index_of_a_container_takes_steps_of_neighbours(access):
    """Whatever part of a round is durable, the note of the index is true."""
    access.indexes.keys_at_once = 4
    tables = await filled(access, indexed(), 30)
    assert access.indexes.writes == 8
    index = access.indexes.get(access.find_segment(T))
    assert index.root.note == encode_note(IndexNote(access.find_segment(T).durable_length, 10 * 21 + 20 * 23))
    assert await index.lookup(bytes(16)) == array("q", [INT64_MIN])
    await tables.close()
