"""Tables whose segment changes identity, or whose opener leaves, while their index is being rebuilt."""

from __future__ import annotations

import asyncio

from headrace.model.tables import TableEntry
from tests.simulation.worlds.memory_segments import MemorySegments
from tests.simulation.worlds.tables import tables_on
from tests.unit.segmentstore.tables.test_tables import T, entry, start, turns


async def test_a_table_created_anew_is_not_missing_because_its_predecessor_is():
    """The rebuild of a deleted table fails; who asks for the new table of that name does not learn that."""
    access = MemorySegments()
    access.read_bytes_max = 10
    tables = tables_on(access)
    await tables.create(T)
    await tables.update(T, [entry("old", b"value")])
    tables.drop(T)
    access.hold_reads = asyncio.Event()
    opening = start(tables.get(T, [b"old"]))
    await turns()
    await tables.delete(T)
    await tables.create(T)
    put = start(tables.update(T, [entry("new", b"value")]))
    get = start(tables.get(T, [b"new"]))
    await turns()
    access.hold_reads.set()
    await asyncio.gather(opening, return_exceptions=True)
    assert await put == [0]  # NoSuchSegmentError: of the former table
    assert await get in ([None], [TableEntry(b"new", b"value", 0)])
    await tables.close()


async def test_a_table_whose_last_caller_left_is_idle_once_its_update_is_durable():
    """Nothing looks at the table again, so nothing takes the update into the index, and the table counts as
    used for ever: its index is never given up for others, its segment never leaves memory.
    """
    access = MemorySegments(auto_commit=False)
    tables = tables_on(access)
    created = start(tables.create(T))
    await turns()
    access.commit()
    await created
    update = start(tables.update(T, [entry("k", b"v")]))
    await turns()
    assert access.pending_count == 1  # accepted
    update.cancel()
    await turns()
    access.commit()
    await turns()
    assert tables.is_idle(access.get_segment(T))
    await tables.close()


async def test_an_update_is_not_visible_because_that_of_a_table_forgotten_before_is_durable():
    """A table is dropped (as by a deletion that was refused) while its append waits for the log. Who opens it
    again waits for that append, and is cancelled; the next one must wait as well. If it does not, its table
    takes the bytes of that append for its own, and shows what was never written.
    """
    access = MemorySegments()
    tables = tables_on(access)
    await tables.create(T)
    first_turn = access.suspend_appends = asyncio.Event()
    first = start(tables.update(T, [entry("first", b"longer value")]))
    await turns()
    tables.drop(T)
    opener = start(tables.get(T, [b"first"]))
    await turns()
    opener.cancel()
    await turns()
    second_turn = access.suspend_appends = asyncio.Event()
    second = start(tables.update(T, [entry("second", b"value")]))
    third = start(tables.update(T, [entry("third", b"value")]))
    await turns()
    first_turn.set()
    await first
    get = start(tables.get(T, [b"first", b"second"]))
    await turns()
    found = get.result() if get.done() else None
    access.suspend_appends = None
    second_turn.set()
    await asyncio.gather(second, third, get)
    assert found in (None, [TableEntry(b"first", b"longer value", 0), None])
    await tables.close()


async def test_a_table_whose_appends_were_given_up_in_line_is_idle():
    """Two updates wait for the log, and both callers leave. The state that was built upon them is void, and
    nobody opens the table again; its segment could never leave memory.
    """
    access = MemorySegments()
    tables = tables_on(access)
    await tables.create(T)
    access.suspend_appends = asyncio.Event()
    given_up = [start(tables.update(T, [entry(key, b"value")])) for key in ("first", "second")]
    await turns()
    for update in given_up:  # the first one first: the second was built upon it
        update.cancel()
    await asyncio.wait(given_up)
    await turns()
    assert tables.is_idle(access.get_segment(T))
    await tables.close()
