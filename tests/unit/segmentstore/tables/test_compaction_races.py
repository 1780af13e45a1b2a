"""Compaction while the updates that it relies on are given up."""

from __future__ import annotations

import asyncio

from headrace.model.tables import TableEntry, TableKey
from headrace.segmentstore.tables.config import TablesConfig, UnindexedConfig
from headrace.segmentstore.tables.log import SCAN_BYTES
from tests.simulation.worlds.memory_segments import MemorySegments
from tests.simulation.worlds.tables import tables_on
from tests.unit.segmentstore.tables.test_tables import T, entry, start, turns


async def test_compaction_is_not_taken_in_by_an_update_in_the_place_of_one_that_was_given_up():
    """Compaction leaves an entry behind for an update under way. That one is cancelled before the log has
    taken it, and another update of the same length takes its place and becomes durable at once: the end
    that compaction waits for is durable, but what it waited for is not.
    """
    access = MemorySegments()
    config = TablesConfig(compaction_bytes_max=50)
    tables = tables_on(access, config)
    await tables.create(T)
    await tables.update(T, [entry("kept", b"only one" * 8)])
    access.hold_reads = asyncio.Event()  # compaction waits for its first read
    for number in range(3):
        await tables.update(T, [entry("busy", b"%64d" % number)])
    await turns()
    never = access.suspend_appends = asyncio.Event()  # the log takes nothing just now
    given_up = start(tables.update(T, [entry("kept", b"superseded".ljust(64))]))
    await turns()
    access.hold_reads.set()
    access.hold_reads = None
    await turns()  # compaction leaves "kept" behind, as an update of it is under way
    access.suspend_appends = None  # now the log takes whatever comes
    given_up.cancel()
    other = start(tables.update(T, [entry("busy", b"in its place".ljust(64))]))
    await asyncio.wait([given_up])
    await other
    await turns()
    assert not never.is_set()
    assert given_up.cancelled()
    tables.drop(T)
    found = await tables.get(T, [b"kept"])
    assert found == [TableEntry(b"kept", b"only one" * 8, 0)]
    await tables.close()


async def test_compaction_goes_on_while_the_log_lets_every_update_wait():
    """A throttled log: whenever compaction has read its part, the next update waits to be taken."""
    access = MemorySegments()
    config = TablesConfig(compaction_bytes_max=50)
    tables = tables_on(access, config)
    await tables.create(T)
    append = access.append

    async def append_later(*arguments):
        await turns()
        return await append(*arguments)

    access.append = append_later
    for number in range(20):
        await tables.update(T, [entry("busy", b"%64d" % number)])
    segment = access.get_segment(T)
    left = segment.accepted_length - segment.start_offset
    assert await tables.get(T, [b"busy"])
    await tables.close()
    assert left < 10 * (64 + len(b"busy") + 17)


async def test_compaction_does_not_move_what_an_index_round_has_replaced_meanwhile():
    """What superseded a candidate has left memory for the index before the candidate is moved."""
    access = MemorySegments()
    config = TablesConfig(compaction_bytes_max=2 * SCAN_BYTES, unindexed=UnindexedConfig(entries_max=1))
    tables = tables_on(access, config)
    await tables.create(T)
    read, is_held, held = access.read, asyncio.Event(), asyncio.Event()

    async def read_later(segment, offset, *arguments, **options):
        if offset == SCAN_BYTES:
            is_held.set()
            await held.wait()
        return await read(segment, offset, *arguments, **options)

    access.read = read_later
    half = SCAN_BYTES // 2
    await tables.update(T, [entry("replaced", b"old".ljust(half))])
    number = 0
    while not is_held.is_set():  # by the second step of a compaction, whose first one has found "replaced"
        await tables.update(T, [entry("busy", b"%d" % number + bytes(half))])
        await turns()
        number += 1
    rounds = tables.statistics().index_rounds
    await tables.update(T, [entry("replaced", b"new")])
    await turns()
    assert tables.statistics().index_rounds > rounds
    held.set()
    await turns()
    statistics = tables.statistics()
    assert statistics.compaction_rounds > 0
    assert [each.value for each in await tables.get(T, [b"replaced"])] == [b"new"]
    await tables.close()


async def test_compaction_does_not_bring_back_what_was_removed_meanwhile():
    """Without an index nothing in memory remembers the removal of a key."""
    access = MemorySegments()
    tables = tables_on(access, TablesConfig(compaction_bytes_max=2 * SCAN_BYTES))
    await tables.create(T)
    read, is_held, held = access.read, asyncio.Event(), asyncio.Event()

    async def read_later(segment, offset, *arguments, **options):
        if offset == SCAN_BYTES:
            is_held.set()
            await held.wait()
        return await read(segment, offset, *arguments, **options)

    access.read = read_later
    half = SCAN_BYTES // 2
    await tables.update(T, [entry("removed", b"old".ljust(half))])
    number = 0
    while not is_held.is_set():  # by the second step of a compaction, whose first one has found "removed"
        await tables.update(T, [entry("busy", b"%d" % number + bytes(half))])
        await turns()
        number += 1
    assert tables.statistics().index_rounds == 0
    await tables.remove(T, [TableKey(b"removed")])
    held.set()
    await turns()
    assert tables.statistics().compaction_rounds > 0
    assert await tables.get(T, [b"removed"]) == [None]
    assert (await tables.info(T)).entry_count == 1
    await tables.close()
