"""Updates that begin in one iteration of the loop: one append, each with its own condition and answer."""

import asyncio

import pytest

from headrace.errors import (
    ContainerOfflineError,
    EventTooLargeError,
    InvalidArgumentError,
    TableKeyMissingError,
    TableKeyVersionError,
    ThrottledError,
    UnknownOutcomeError,
)
from headrace.limits import KIB, TABLE_VALUE_BYTES_MAX
from headrace.model.tables import NOT_EXISTS, TableEntry, TableKey
from headrace.segmentstore.tables.update_batch import UPDATE_BATCH_BYTES_MAX
from tests.simulation.workloads.joined_updates import join_update
from tests.simulation.worlds.memory_segments import MemorySegments
from tests.simulation.worlds.tables import tables_on

T = "scope/table"


@pytest.fixture
async def access():
    return MemorySegments()


@pytest.fixture
async def tables(access):
    """One table, which is open: only then do updates begin at once."""
    tables = tables_on(access)
    await tables.create(T)
    await tables.get(T, [b"key"])
    yield tables
    tables.check()
    await tables.close()


@pytest.fixture
def join(tables, access):
    def join(key, value=b"", version=None, expected_length=-1):
        entry = TableEntry(key, value) if version is None else TableEntry(key, value, version)
        return asyncio.ensure_future(join_update(tables, T, [entry], expected_length))

    return join


async def test_updates_of_one_iteration_are_one_append(tables, access, join):
    before = access.appends
    updates = [join(b"%d" % number, b"value") for number in range(50)]
    versions = await asyncio.gather(*updates)
    assert access.appends == before + 1
    assert versions == [[sum(17 + 5 + len(b"%d" % n) for n in range(number))] for number in range(50)]
    found = await tables.get(T, [b"%d" % number for number in range(50)])
    assert [(entry.value, [entry.version]) for entry in found] == [
        (b"value", version) for version in versions
    ]


async def test_the_newest_of_several_puts_of_one_key_stays(tables, join):
    await asyncio.gather(*[join(b"key", b"%d" % number) for number in range(10)])
    (entry,) = await tables.get(T, [b"key"])
    assert entry.value == b"9"


async def test_a_refused_one_changes_nothing_for_the_others(tables, access, join):
    updates = [
        join(b"a", b"1"),
        join(b"b", b"2", 77),
        join(b"a", b"3", NOT_EXISTS),
        join(b"c", b"4", NOT_EXISTS),
        join(b"d", b"5"),
    ]
    outcomes = await asyncio.gather(*updates, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [
        list,
        TableKeyMissingError,
        TableKeyVersionError,
        list,
        list,
    ]
    found = await tables.get(T, [b"a", b"b", b"c", b"d"])
    assert [entry and entry.value for entry in found] == [b"1", None, b"4", b"5"]


async def test_a_condition_is_judged_by_those_in_front_of_it(tables, join):
    first = 17 + len(b"key") + len(b"1")
    updates = [
        join(b"key", b"1"),
        join(b"key", b"2", 0),
        join(b"key", b"3", first, expected_length=2 * first),
        join(b"key", b"4", first),
    ]
    outcomes = await asyncio.gather(*updates, return_exceptions=True)
    assert outcomes[:3] == [[0], [first], [2 * first]]
    assert isinstance(outcomes[3], TableKeyMissingError | TableKeyVersionError)  # without them there is none
    (entry,) = await tables.get(T, [b"key"])
    assert entry.value == b"3"


async def test_an_update_that_is_too_large_is_refused_at_once_and_alone(tables, access, join):
    first = join(b"a", b"1")
    second = join(b"b", bytes(TABLE_VALUE_BYTES_MAX + 1))
    third = join(b"c", b"3")
    with pytest.raises(InvalidArgumentError):
        await second
    assert await asyncio.gather(first, third) == [[0], [19]]


async def test_updates_that_do_not_fit_one_batch_keep_their_order(tables, access, join):
    size = 100 * KIB
    count = 2 * UPDATE_BATCH_BYTES_MAX // size + 1
    before = access.appends
    updates = [join(b"key", b"%d" % number * size) for number in range(count)]
    versions = await asyncio.gather(*updates)
    assert access.appends < before + count
    assert sorted(versions) == [[number * (17 + 3 + size)] for number in range(count)]


async def test_updates_removals_and_compaction_do_not_overtake_a_batch_that_is_open(tables, access, join):
    begun = join(b"key", b"1")
    await asyncio.sleep(0)
    removed = asyncio.ensure_future(tables.remove(T, [TableKey(b"key")]))
    plain = asyncio.ensure_future(tables.update(T, [TableEntry(b"key", b"2", NOT_EXISTS)]))
    assert await begun == [0]
    await removed
    assert await plain == [21 + 20]


async def test_an_overloaded_log_refuses_all_of_a_batch(tables, access, join):
    access.refuse_next = ThrottledError("full")
    updates = [join(b"a", b"1"), join(b"b", b"2")]
    outcomes = await asyncio.gather(*updates, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [ThrottledError] * 2
    assert await tables.get(T, [b"a", b"b"]) == [None, None]
    assert await join(b"a", b"3") == [0]


async def test_after_a_refused_append_each_is_judged_again_in_order(tables, access, join):
    access.refuse_next = EventTooLargeError(38, 30)
    updates = [join(b"key", b"1"), join(b"other", b"2"), join(b"key", b"3")]
    assert await asyncio.gather(*updates) == [[0], [21], [44]]
    found = await tables.get(T, [b"key", b"other"])
    assert [entry.value for entry in found] == [b"3", b"2"]


async def test_updates_behind_one_that_was_given_up_are_judged_again(tables, access, join):
    access.suspend_appends = asyncio.Event()
    given_up = asyncio.ensure_future(tables.update(T, [TableEntry(b"key", b"1")]))
    await asyncio.sleep(0)
    updates = [join(b"key", b"2", 0), join(b"other", b"3")]
    await asyncio.sleep(0)
    given_up.cancel()
    access.suspend_appends.set()
    outcomes = await asyncio.gather(*updates, return_exceptions=True)
    assert isinstance(outcomes[0], TableKeyMissingError)
    assert outcomes[1] == [0]


async def test_no_update_is_answered_before_it_is_durable(access, join):
    access.auto_commit = False
    updates = [join(b"key", b"1"), join(b"key", b"2", NOT_EXISTS)]
    for _ in range(20):
        await asyncio.sleep(0)
    assert not any(update.done() for update in updates)
    access.commit()
    outcomes = await asyncio.gather(*updates, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [list, TableKeyVersionError]


async def test_a_log_that_fails_leaves_no_caller_waiting(tables, access, join):
    access.auto_commit = False
    updates = [join(b"a", b"1"), join(b"b", b"2")]
    for _ in range(20):
        await asyncio.sleep(0)
    access.crash()
    outcomes = await asyncio.gather(*updates, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [ContainerOfflineError] * 2


async def test_a_table_with_an_open_batch_is_in_use(tables, access, join):
    begun = join(b"key", b"1")
    await asyncio.sleep(0)
    assert not tables.is_idle(access.find_segment(T))
    await begun
    assert tables.is_idle(access.find_segment(T))


async def test_a_container_that_stops_answers_what_it_has_begun(tables, access, join):
    access.auto_commit = False
    in_flight = join(b"a", b"1")
    for _ in range(20):
        await asyncio.sleep(0)
    begun = join(b"b", b"2")
    await asyncio.sleep(0)
    await tables.close()
    for update in (in_flight, begun):
        with pytest.raises(UnknownOutcomeError):
            await update
    access.commit()


async def test_known_keys_are_found_without_waiting(tables, access, join):
    await asyncio.gather(join(b"a", b"1"), join(b"b", b""))
    found = tables.get_nowait(T, [b"a", b"b", b"c"], 1000)
    assert [entry and (entry.key, entry.value) for entry in found] == [(b"a", b"1"), (b"b", b""), None]
    assert found == await tables.get(T, [b"a", b"b", b"c"])
    assert tables.get_nowait(T, [b"a"], 10) is None
    with pytest.raises(InvalidArgumentError):
        tables.get_nowait(T, [b""], 1000)
