"""As for other segments: that a table is gone, or that a condition does not hold in it, is final for whoever
hears it. Nobody hears it before it is durable, or of a former owner, who cannot know.
"""

import asyncio

import pytest

from headrace.errors import FencedOutError, WalWriteError
from headrace.model.tables import NOT_EXISTS, TableEntry, TableKey
from headrace.runtime.entropy import SeededEntropy
from headrace.segmentstore.store import SegmentStore
from headrace.wire import commands as c
from tests.unit.segmentstore.container.test_fenced_owner import Registry, bench_of_two, start_beside
from tests.unit.segmentstore.ingress.world import FakeHome, Peer

TABLE = "scope/table"
KEY = b"key"

QUESTIONS = {
    "info": c.GetTableSegmentInfo(5, TABLE, ""),
    "update": c.UpdateTableEntries(5, TABLE, "", [TableEntry(KEY, b"other")]),
    "remove": c.RemoveTableKeys(5, TABLE, "", [TableKey(KEY)]),
    "read": c.ReadTable(5, TABLE, "", [TableKey(KEY)]),
    "keys": c.ReadTableKeys(5, TABLE, "", 10),
    "entries": c.ReadTableEntries(5, TABLE, "", 10),
    "delta": c.ReadTableEntriesDelta(5, TABLE, "", 0, 10),
}


@pytest.mark.slow
@pytest.mark.parametrize("question", QUESTIONS)
async def test_nobody_hears_that_a_table_is_gone_when_the_log_loses_that(world, question):
    await world.store.create_table(TABLE)
    await world.store.table_update(TABLE, [TableEntry(KEY, b"value")])
    world.wal.held = True
    task = asyncio.ensure_future(world.store.delete_table(TABLE, must_be_empty=False))
    for _ in range(10):
        await asyncio.sleep(0)
    peer = Peer(world.home)
    replies = await peer.ask(QUESTIONS[question])
    world.container.log.fail(WalWriteError("the disk is gone"))
    with pytest.raises(WalWriteError):
        await task
    replies += await peer.replies()
    world.wal.go_on()
    world.wal._in_flight.clear()
    world.bench.container = None
    container = await world.bench.start()
    (found,) = await container.tables.get(TABLE, [KEY])
    assert found.value == b"value"  # it is there after all
    assert not [reply for reply in replies if isinstance(reply, c.NoSuchSegment)]


@pytest.mark.parametrize("question", QUESTIONS)
async def test_a_former_owner_does_not_deny_a_table_of_its_successor(question):
    bench = bench_of_two()
    former = await bench.start()
    successor = await start_beside(bench)
    await successor.tables.create(TABLE)
    home = FakeHome(SegmentStore(Registry(former), SeededEntropy(1)))
    peer = Peer(home)
    assert await peer.ask(QUESTIONS[question]) == [c.WrongHost(5, TABLE, "", "")]
    await home.supervisor.stop()
    await former.stop()
    await successor.stop()


async def test_a_condition_is_not_refused_by_who_is_not_the_owner_any_more():
    """The caller has the version from the successor, and is told that the key has another one."""
    bench = bench_of_two()
    former = await bench.start()
    await former.tables.create(TABLE)
    await former.tables.update(TABLE, [TableEntry(KEY, b"one")])
    successor = await start_beside(bench)
    [version] = await successor.tables.update(TABLE, [TableEntry(KEY, b"two")])
    old = SegmentStore(Registry(former), SeededEntropy(1))
    outcomes = []
    for call in (
        old.table_update(TABLE, [TableEntry(KEY, b"three", version)]),
        old.table_remove(TABLE, [TableKey(KEY, version)]),
        old.table_update(TABLE, [TableEntry(KEY, b"four", NOT_EXISTS)]),
    ):
        outcomes += await asyncio.gather(call, return_exceptions=True)
    await former.stop()
    await successor.stop()
    assert [type(outcome) for outcome in outcomes] == [FencedOutError] * 3
