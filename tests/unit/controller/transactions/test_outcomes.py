import asyncio

from headrace.controller.store.layout import COUNTERS, finished_table
from headrace.controller.transactions.outcomes import Outcomes
from headrace.errors import NoSuchTableError
from headrace.testing.memory_metadata_store import MemoryStore
from tests.unit.controller.conftest import ManualClock

UID, OTHER = bytes(16), bytes([1] * 16)
DAY_MS = 86_400_000


async def make_store():
    """Return a store as a controller prepares it."""
    store = MemoryStore()
    await store.create_table(COUNTERS)
    return store


async def days_with_tables(store):
    found = []
    for day in range(30):
        try:
            await store.get(finished_table(day), b"key")
        except NoSuchTableError:
            continue
        found.append(day)
    return found


def make(store, clock=None):
    return Outcomes(store, clock or ManualClock())


async def test_outcomes_are_found_by_stream_and_id():
    outcomes = make(await make_store())
    await outcomes.record(UID, [5, 5000], committed=True)
    await outcomes.record(UID, [6], committed=False)
    assert [await outcomes.find(UID, txn) for txn in (5, 5000, 6, 7)] == [True, True, False, None]
    assert await outcomes.find(OTHER, 5) is None
    assert await outcomes.find(UID, (1 << 96) | 5) is None


async def test_many_outcomes_recorded_at_once_are_all_kept():
    store = await make_store()
    outcomes = make(store)
    await asyncio.gather(
        *(outcomes.record(UID, [number], committed=number % 3 > 0) for number in range(3000))
    )
    reread = make(store)
    assert [await reread.find(UID, number) for number in range(3000)] == [n % 3 > 0 for n in range(3000)]


async def test_two_controllers_record_into_one_row_without_losing_any():
    store = await make_store()
    one, other = make(store), make(store)
    await asyncio.gather(
        *(one.record(UID, [number], committed=True) for number in range(0, 400, 2)),
        *(other.record(UID, [number], committed=False) for number in range(1, 400, 2)),
    )
    assert [await one.find(UID, number) for number in range(400)] == [n % 2 == 0 for n in range(400)]


async def test_an_outcome_is_remembered_for_a_whole_day_and_forgotten_after_two():
    store, clock = await make_store(), ManualClock(10 * DAY_MS + DAY_MS - 1)
    outcomes = make(store, clock)
    await outcomes.record(UID, [5], committed=True)
    clock.now += DAY_MS
    await outcomes.record(UID, [6], committed=True)
    assert await outcomes.find(UID, 5) is True
    clock.now += DAY_MS
    await outcomes.record(UID, [7], committed=True)
    assert [await outcomes.find(UID, txn) for txn in (5, 6, 7)] == [None, True, True]
    assert await days_with_tables(store) == [11, 12]


async def test_outcomes_are_remembered_for_as_many_days_as_is_set():
    store, clock = await make_store(), ManualClock(10 * DAY_MS)
    outcomes = Outcomes(store, clock, kept_ms=3 * DAY_MS)
    for day in range(4):
        await outcomes.record(UID, [day], committed=True)
        clock.now += DAY_MS
    clock.now -= 1
    reread = Outcomes(store, clock, kept_ms=3 * DAY_MS)
    assert [await reread.find(UID, txn_id) for txn_id in range(4)] == [True] * 4
    assert [txn_id for txn_id, _ in await reread.newest(UID, 10)] == [3, 2, 1, 0]
    clock.now += 1
    await outcomes.record(UID, [9], committed=True)
    assert [await outcomes.find(UID, txn_id) for txn_id in (0, 1, 9)] == [None, True, True]
    assert await days_with_tables(store) == [11, 12, 13, 14]


async def test_a_day_that_ends_between_two_writes_loses_nothing():
    store, clock = await make_store(), ManualClock(10 * DAY_MS)
    outcomes = make(store, clock)
    await outcomes.record(UID, [5], committed=True)
    clock.now += DAY_MS
    await outcomes.record(UID, [6], committed=False)
    assert [await outcomes.find(UID, txn) for txn in (5, 6)] == [True, False]
    assert await outcomes.newest(UID, 10) == [(6, False), (5, True)]


async def test_the_newest_are_listed_first_and_no_more_than_asked_for():
    outcomes = make(await make_store())
    await outcomes.record(UID, range(2000), committed=True)
    await outcomes.record(OTHER, [9999], committed=True)
    assert await outcomes.newest(UID, 3) == [(1999, True), (1998, True), (1997, True)]
    assert len(await outcomes.newest(UID, 500)) == 500


async def test_no_table_is_left_after_however_long_a_time_without_transactions():
    store, clock = await make_store(), ManualClock(10 * DAY_MS)
    await make(store, clock).record(UID, [5], committed=True)
    clock.now += DAY_MS
    await make(store, clock).record(UID, [6], committed=True)
    clock.now += 400 * DAY_MS
    assert await days_with_tables(store) == [10, 11]
    await make(store, clock).sweep()
    assert await days_with_tables(store) == []
    assert (await store.scan(COUNTERS, b"", 10)).rows == []


async def test_outcomes_of_late_stream_epochs_are_recorded_too():
    """A stream that was scaled a thousand times has ids beyond those of a key of 12 bytes."""
    store = await make_store()
    outcomes = make(store)
    late = [epoch << 96 | 5 for epoch in (1023, 1024, 1 << 30)]
    await outcomes.record(UID, late, committed=True)
    reread = make(store)
    assert [await reread.find(UID, txn_id) for txn_id in late] == [True] * 3
    assert await reread.newest(UID, 3) == [(txn_id, True) for txn_id in reversed(late)]
