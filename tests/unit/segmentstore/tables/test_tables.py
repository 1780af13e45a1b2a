import asyncio

import pytest

from headrace.errors import (
    AnswerTooLargeError,
    ContainerOfflineError,
    DataCorruptionError,
    FencedOutError,
    InvalidArgumentError,
    NoSuchSegmentError,
    OffsetMismatchError,
    SegmentExistsError,
    SegmentSealedError,
    SegmentTruncatedError,
    TableKeyMissingError,
    TableKeyVersionError,
    TableNotEmptyError,
    ThrottledError,
)
from headrace.limits import (
    TABLE_BATCH_BYTES_MAX,
    TABLE_ITEM_BYTES,
    TABLE_KEY_BYTES_MAX,
    TABLE_VALUE_BYTES_MAX,
)
from headrace.model.attributes import ATTRIBUTE_ID_LENGTH, ROLLOVER_SIZE, SEGMENT_TYPE
from headrace.model.tables import NOT_EXISTS, TableEntry, TableKey
from headrace.segmentstore.tables.config import TablesConfig
from headrace.segmentstore.tables.entry_format import encode_entries
from tests.simulation.worlds.memory_segments import MemorySegments
from tests.simulation.worlds.tables import tables_on

T = "scope/table"


@pytest.fixture
async def access():
    return MemorySegments()


@pytest.fixture
async def tables(access):
    tables = tables_on(access)
    await tables.create(T)
    yield tables
    tables.check()
    await tables.close()


def entry(key, value=b"", version=None):
    found = TableEntry(key if isinstance(key, bytes) else key.encode(), value)
    if version is not None:
        found.version = version
    return found


async def turns(count=50):
    for _ in range(count):
        await asyncio.sleep(0)


def start(coroutine):
    return asyncio.get_running_loop().create_task(coroutine)


async def all_keys(tables, count=7, name=T):
    keys, token = [], b""
    while True:
        page, token = await tables.keys(name, token, count)
        if not page:
            assert token == b""
            assert len(set(keys)) == len(keys)
            return sorted(keys)
        assert token
        keys += [item.key for item in page]


# ------------------------------------------------------------------------------------------ puts, gets,
# removals


async def test_versions_are_the_offsets_of_the_entries(tables):
    assert await tables.update(T, [entry("k1", b"v1", NOT_EXISTS), entry("k2")]) == [0, 21]
    assert await tables.update(T, [entry("k1", b"v1")]) == [40]
    info = await tables.info(T)
    assert (info.start_offset, info.length, info.entry_count, info.key_length) == (0, 61, 2, 0)


async def test_a_get_answers_in_the_order_asked_with_none_for_missing_keys(tables):
    await tables.update(T, [entry("k1", b"v1"), entry("k2")])
    assert await tables.get(T, [b"k2", b"zz", b"k1", b"k2"]) == [
        entry("k2", b"", 21),
        None,
        entry("k1", b"v1", 0),
        entry("k2", b"", 21),
    ]
    assert await tables.get(T, []) == []


async def test_values_not_in_the_cache_are_read_from_the_log_in_few_reads(access):
    tables = tables_on(access, TablesConfig())
    await tables.create(T)
    await tables.update(T, [entry(f"k{n:03}", b"%d" % n) for n in range(100)])
    found = await tables.get(T, [b"k%03d" % n for n in range(100)])
    assert [item.value for item in found] == [b"%d" % n for n in range(100)]
    assert access.reads == 1


async def test_short_reads_are_put_together(access):
    access.read_bytes_max = 3
    tables = tables_on(access, TablesConfig())
    await tables.create(T)
    await tables.update(T, [entry("k", b"a long value"), entry("l", b"another")])
    assert [item.value for item in await tables.get(T, [b"l", b"k"])] == [b"another", b"a long value"]
    tables.drop(T)
    assert (await tables.info(T)).entry_count == 2


async def test_removing_an_absent_key_succeeds_and_writes_nothing(tables):
    await tables.update(T, [entry("a")])
    await tables.remove(T, [TableKey(b"b"), TableKey(b"c", NOT_EXISTS)])
    assert (await tables.info(T)).length == 18
    await tables.remove(T, [TableKey(b"a"), TableKey(b"a"), TableKey(b"b")])
    info = await tables.info(T)
    assert (info.length, info.entry_count) == (36, 0)
    assert await tables.get(T, [b"a"]) == [None]


async def test_removing_an_absent_key_is_refused_by_who_is_not_the_owner_any_more():
    access = MemorySegments()
    tables = tables_on(access)
    await tables.create(T)
    await tables.update(T, [entry("a")])
    access.fenced = True
    with pytest.raises(FencedOutError):
        await tables.remove(T, [TableKey(b"b")])
    access.fenced = False
    await tables.remove(T, [TableKey(b"b")])
    assert (await tables.info(T)).length == 18


async def test_a_key_twice_in_one_update_ends_as_its_last_entry(tables):
    assert await tables.update(T, [entry("k", b"1"), entry("k", b"2")]) == [0, 19]
    assert await tables.get(T, [b"k"]) == [entry("k", b"2", 19)]


async def test_an_empty_update_changes_nothing(tables):
    assert await tables.update(T, []) == []
    await tables.remove(T, [])
    assert (await tables.info(T)).length == 0


# ------------------------------------------------------------------------------------------ conditions


async def test_an_update_is_applied_all_or_not_at_all(tables):
    await tables.update(T, [entry("a", b"1")])
    with pytest.raises(TableKeyVersionError):
        await tables.update(T, [entry("b"), entry("a", b"2", NOT_EXISTS), entry("c")])
    with pytest.raises(TableKeyMissingError):
        await tables.update(T, [entry("a", b"2", NOT_EXISTS), entry("b", b"", 0)])
    with pytest.raises(TableKeyVersionError):
        await tables.remove(T, [TableKey(b"a", 1)])
    assert await all_keys(tables) == [b"a"]
    assert (await tables.get(T, [b"a"]))[0].value == b"1"


async def test_a_version_handed_out_is_accepted_in_a_condition_once(tables):
    [version] = await tables.update(T, [entry("a", b"1")])
    [newer] = await tables.update(T, [entry("a", b"2", version)])
    assert newer > version
    with pytest.raises(TableKeyVersionError):
        await tables.update(T, [entry("a", b"3", version)])
    await tables.remove(T, [TableKey(b"a", newer)])
    with pytest.raises(TableKeyMissingError):
        await tables.remove(T, [TableKey(b"a", newer)])


async def test_the_length_of_the_log_may_be_a_condition(tables):
    await tables.update(T, [entry("a")], 0)
    await tables.update(T, [entry("b")], 18)
    with pytest.raises(OffsetMismatchError) as caught:
        await tables.update(T, [entry("c")], 18)
    assert (caught.value.expected, caught.value.actual) == (18, 36)
    with pytest.raises(OffsetMismatchError):
        await tables.remove(T, [TableKey(b"a")], 0)


async def test_of_a_hundred_who_create_the_same_key_one_wins(tables, access):
    access.auto_commit = False
    racers = [start(tables.update(T, [entry("k", b"%d" % n, NOT_EXISTS)])) for n in range(100)]
    await turns()
    assert access.appends == 1
    assert not any(racer.done() for racer in racers)  # nobody has lost before somebody has won
    access.commit()
    await asyncio.gather(*racers, return_exceptions=True)
    assert [racer.result() for racer in racers if racer.exception() is None] == [[0]]
    assert sum(isinstance(racer.exception(), TableKeyVersionError) for racer in racers) == 99


async def test_losers_of_a_race_whose_winner_was_lost_may_win(tables, access):
    access.auto_commit = False
    racers = [start(tables.update(T, [entry("k", b"%d" % n, NOT_EXISTS)])) for n in range(3)]
    await turns()
    recovered = access.crash()
    await asyncio.gather(*racers, return_exceptions=True)
    assert all(isinstance(racer.exception(), ContainerOfflineError) for racer in racers)
    successor = tables_on(recovered)
    recovered.auto_commit = True
    assert await successor.update(T, [entry("k", b"1", NOT_EXISTS)]) == [0]


async def test_updates_of_one_table_do_not_wait_for_each_other(tables, access):
    access.auto_commit = False
    updates = [start(tables.update(T, [entry(f"k{n}", b"x")])) for n in range(20)]
    await turns(5)
    assert access.appends == 20
    access.commit()
    assert sorted([(await update)[0] for update in updates]) == [(await update)[0] for update in updates]


async def test_conditional_updates_of_different_keys_do_not_wait_for_each_other(tables, access):
    access.auto_commit = False
    updates = [start(tables.update(T, [entry(f"k{n}", b"x", NOT_EXISTS)])) for n in range(20)]
    await turns(5)
    assert access.appends == 20
    access.commit()
    await asyncio.gather(*updates)


async def test_a_chain_of_conditional_updates_may_be_in_flight(tables, access):
    access.auto_commit = False
    first = start(tables.update(T, [entry("k", b"1", NOT_EXISTS)]))
    await turns(2)
    second = start(tables.update(T, [entry("k", b"2", 0)]))
    await turns(2)
    third = start(tables.remove(T, [TableKey(b"k", 19)]))
    await turns(2)
    assert access.appends == 3
    access.commit()
    await asyncio.gather(first, second, third)
    assert await tables.get(T, [b"k"]) == [None]


async def test_an_update_is_visible_only_when_durable(tables, access):
    await tables.update(T, [entry("k", b"old")])
    access.auto_commit = False
    update = start(tables.update(T, [entry("k", b"new"), entry("l")]))
    await turns()
    assert [item and item.value for item in await tables.get(T, [b"k", b"l"])] == [b"old", None]
    assert await all_keys(tables) == [b"k"]
    assert (await tables.info(T)).length == 21
    assert len((await tables.delta(T, 0, 10)).entries) == 1
    access.commit()
    # Even before the one who updates has been told.
    assert [item.value for item in await tables.get(T, [b"k", b"l"])] == [b"new", b""]
    await update


async def test_an_expected_length_that_only_accepted_updates_contradict_is_answered_when_they_are_durable(
    tables, access
):
    access.auto_commit = False
    first = start(tables.update(T, [entry("a")], 0))
    second = start(tables.update(T, [entry("b")], 0))
    await turns()
    assert not second.done()
    access.commit()
    await first
    with pytest.raises(OffsetMismatchError):
        await second


async def test_a_cancelled_update_takes_effect_all_the_same(tables, access):
    access.auto_commit = False
    update = start(tables.update(T, [entry("k", b"v")]))
    await turns(3)
    update.cancel()
    await turns(3)
    loser = start(tables.update(T, [entry("k", b"w", NOT_EXISTS)]))
    await turns(3)
    access.commit()
    with pytest.raises(TableKeyVersionError):
        await loser
    assert (await tables.get(T, [b"k"]))[0].value == b"v"


# ------------------------------------------------------------------------------------------ failures


async def test_a_refused_append_leaves_no_trace(tables, access):
    access.refuse_next = ThrottledError("full")
    with pytest.raises(ThrottledError):
        await tables.update(T, [entry("k", b"v", NOT_EXISTS)])
    tables.check()
    assert await tables.update(T, [entry("k", b"v", NOT_EXISTS)]) == [0]
    assert tables.statistics().rebuilds == 1


async def test_updates_judged_by_one_that_was_refused_are_judged_again(tables, access):
    await tables.update(T, [entry("base", b"x")])
    access.suspend_appends = asyncio.Event()
    access.refuse_next = ThrottledError("full")
    first = start(tables.update(T, [entry("k", b"1", NOT_EXISTS)]))
    await turns(3)
    second = start(tables.update(T, [entry("k", b"2", 22)]))
    third = start(tables.update(T, [entry("l", b"1", NOT_EXISTS)]))
    fourth = start(tables.remove(T, [TableKey(b"k")]))
    await turns(3)
    access.suspend_appends.set()
    results = await asyncio.gather(first, second, third, fourth, return_exceptions=True)
    assert [type(result) for result in results] == [ThrottledError, TableKeyMissingError, list, type(None)]
    assert results[2] == [22]
    assert await tables.get(T, [b"k"]) == [None]
    assert await tables.update(T, [entry("k", b"3", NOT_EXISTS)]) == [41]
    tables.check()


async def test_an_update_whose_append_was_cancelled_before_it_was_accepted_did_not_happen(tables, access):
    access.suspend_appends = asyncio.Event()
    first = start(tables.update(T, [entry("a", b"1")]))
    second = start(tables.update(T, [entry("b", b"2")]))
    await turns(3)
    first.cancel()
    await turns(3)
    access.suspend_appends.set()
    assert await second == [0]
    assert await all_keys(tables) == [b"b"]


async def test_a_condition_that_waits_for_an_update_is_judged_when_that_update_is_refused(tables, access):
    await tables.update(T, [entry("k", b"1")])
    access.suspend_appends = asyncio.Event()
    access.refuse_next = ThrottledError("full")
    removal = start(tables.remove(T, [TableKey(b"k")]))
    await turns(3)
    update = start(tables.update(T, [entry("k", b"2", 0)]))
    await turns(3)
    access.suspend_appends.set()
    with pytest.raises(ThrottledError):
        await removal
    async with asyncio.timeout(60):
        assert await update == [19]


async def test_bytes_somebody_else_appended_are_taken_in(tables, access):
    await tables.update(T, [entry("k", b"1")])
    await access.append(access.get_segment(T), encode_entries([entry("l", b"2")])[0])
    assert await tables.update(T, [entry("l", b"3", 19)]) == [38]
    tables.check()


async def test_a_container_that_ends_fails_its_updates(tables, access):
    access.auto_commit = False
    updates = [start(tables.update(T, [entry(f"k{n}")])) for n in range(5)]
    await turns(3)
    access.crash()
    for result in await asyncio.gather(*updates, return_exceptions=True):
        assert isinstance(result, ContainerOfflineError)


async def test_a_sealed_table_answers_reads_and_refuses_updates(tables, access):
    await tables.update(T, [entry("k", b"v")])
    access.seal(T)
    with pytest.raises(SegmentSealedError):
        await tables.update(T, [entry("k", b"w")])
    assert (await tables.get(T, [b"k"]))[0].value == b"v"
    tables.drop(T)
    assert (await tables.get(T, [b"k"]))[0].value == b"v"


# ------------------------------------------------------------------------------------------ bounds


@pytest.mark.parametrize(
    "bad",
    [
        entry(b""),
        entry(b"k" * (TABLE_KEY_BYTES_MAX + 1)),
        entry(b"k", b"v" * (TABLE_VALUE_BYTES_MAX + 1)),
        entry(b"k" * TABLE_KEY_BYTES_MAX, b"v" * TABLE_VALUE_BYTES_MAX),  # 17 bytes too many
        entry(b"k", b"", -2),
    ],
)
async def test_entries_beyond_the_limits_are_refused_and_change_nothing(tables, bad):
    with pytest.raises(InvalidArgumentError):
        await tables.update(T, [entry("good"), bad])
    assert await all_keys(tables) == []


async def test_the_largest_entries_are_accepted(tables):
    largest = [
        entry(b"k" * TABLE_KEY_BYTES_MAX, b"v" * (TABLE_VALUE_BYTES_MAX - 17)),
        entry(b"k", b"w" * TABLE_VALUE_BYTES_MAX),
    ]
    await tables.update(T, largest)
    tables.drop(T)
    found = await tables.get(T, [item.key for item in largest])
    assert [item.value for item in found] == [item.value for item in largest]


async def test_a_batch_or_an_answer_beyond_the_limit_is_refused(tables):
    value = b"v" * TABLE_VALUE_BYTES_MAX
    batch = [entry(f"{n:02}", value) for n in range(TABLE_BATCH_BYTES_MAX // len(value) + 1)]
    with pytest.raises(InvalidArgumentError):
        await tables.update(T, batch)
    await tables.update(T, batch[:17])
    await tables.update(T, batch[17:])
    with pytest.raises(InvalidArgumentError):
        await tables.get(T, [item.key for item in batch])
    assert len((await tables.entries(T, b"", 100))[0]) == 2  # not more than two mebibytes


@pytest.mark.parametrize("key", [b"", b"k" * (TABLE_KEY_BYTES_MAX + 1)])
async def test_illegal_keys_are_refused_by_gets_and_removals(tables, key):
    with pytest.raises(InvalidArgumentError):
        await tables.get(T, [key])
    with pytest.raises(InvalidArgumentError):
        await tables.remove(T, [TableKey(key)])
    with pytest.raises(InvalidArgumentError):
        await tables.remove(T, [TableKey(b"k", -5)])


@pytest.mark.parametrize("count", [0, -1])
async def test_asking_for_no_items_is_refused(tables, count):
    for read in (tables.keys, tables.entries):
        with pytest.raises(InvalidArgumentError):
            await read(T, b"", count)
    with pytest.raises(InvalidArgumentError):
        await tables.delta(T, 0, count)


# ------------------------------------------------------------------------------------------ life of a table


async def test_creating_a_table_marks_its_segment(tables, access):
    await tables.create("fixed", 16, 1234)
    segment = access.get_segment("fixed")
    assert segment.attributes.durable[SEGMENT_TYPE] == 5
    assert segment.attributes.durable[ATTRIBUTE_ID_LENGTH] == 16
    assert segment.attributes.durable[ROLLOVER_SIZE] == 1234
    assert access.get_segment(T).attributes.durable[SEGMENT_TYPE] == 1
    with pytest.raises(SegmentExistsError):
        await tables.create(T)
    for key_length, rollover_bytes in [(-1, 0), (257, 0), (0, -1)]:
        with pytest.raises(InvalidArgumentError):
            await tables.create("new", key_length, rollover_bytes)


async def test_a_segment_that_is_no_table_is_refused(tables, access):
    await access.create("stream/0", {})
    for request in (
        tables.info("stream/0"),
        tables.get("stream/0", [b"k"]),
        tables.update("stream/0", [entry("k")]),
        tables.remove("stream/0", [TableKey(b"k")]),
        tables.keys("stream/0", b"", 1),
        tables.delta("stream/0", 0, 1),
        tables.delete("stream/0"),
    ):
        with pytest.raises(InvalidArgumentError):
            await request
    with pytest.raises(NoSuchSegmentError):
        await tables.get("nowhere", [b"k"])


async def test_deleting_on_condition_needs_an_empty_table(tables, access):
    await tables.update(T, [entry("k")])
    with pytest.raises(TableNotEmptyError):
        await tables.delete(T, must_be_empty=True)
    access.auto_commit = False
    removal = start(tables.remove(T, [TableKey(b"k")]))
    await turns(3)
    deletion = start(tables.delete(T, must_be_empty=True))
    await turns(3)
    assert not deletion.done()
    while not deletion.done():
        access.commit()
        await turns(2)
    await removal
    await deletion
    with pytest.raises(NoSuchSegmentError):
        await tables.info(T)


async def test_a_table_created_again_under_the_same_name_is_empty(tables):
    await tables.update(T, [entry("k", b"v")])
    await tables.delete(T)
    await tables.create(T)
    assert await tables.get(T, [b"k"]) == [None]
    assert await tables.update(T, [entry("k", b"w", NOT_EXISTS)]) == [0]


async def test_a_table_evicted_by_the_container_is_opened_again(tables, access):
    await tables.update(T, [entry("k", b"v")])
    access.evict(T)  # even if nobody told us
    assert (await tables.get(T, [b"k"]))[0].value == b"v"
    assert await tables.update(T, [entry("k", b"w", 0)]) == [19]


async def test_a_table_dropped_in_flight_is_rebuilt_with_what_is_under_way(tables, access):
    access.auto_commit = False
    update = start(tables.update(T, [entry("k", b"v")]))
    await turns(3)
    tables.drop(T)
    get = start(tables.get(T, [b"k"]))
    await turns(3)
    assert not get.done()
    access.commit()
    assert (await get)[0].value == b"v"
    assert await update == [0]


async def test_a_table_dropped_after_its_callers_left_waits_for_what_was_accepted(tables, access):
    access.auto_commit = False
    update = start(tables.update(T, [entry("k", b"v")]))
    await turns(3)
    update.cancel()
    await turns(3)
    tables.drop(T)
    creation = start(tables.update(T, [entry("k", b"w", NOT_EXISTS)]))
    await turns(10)
    assert not creation.done()
    access.commit()
    with pytest.raises(TableKeyVersionError):
        await creation


async def test_a_rebuild_begins_behind_a_truncation_under_way(access):
    tables = tables_on(access)
    await tables.create(T)
    for n in range(4):
        await tables.update(T, [entry(f"k{n}", b"x" * 400_000)])
    [version] = await tables.update(T, [entry("k0", b"y")])
    access.auto_commit = False
    truncation = start(access.truncate(access.get_segment(T), 400_019))
    await turns(2)
    tables.drop(T)
    info = start(tables.info(T))
    await turns(2)
    access.commit()
    await truncation
    assert (await info).entry_count == 4
    assert (await tables.get(T, [b"k0"]))[0].version == version
    await tables.close()


async def test_a_rebuild_overtaken_by_a_truncation_begins_again_behind_it(access):
    """As the compaction of a table does that was dropped, and its truncation not yet accepted."""
    tables = tables_on(access)
    await tables.create(T)
    for n in range(4):
        await tables.update(T, [entry(f"k{n}", b"x" * 400_000)])
    [version] = await tables.update(T, [entry("k0", b"y")])
    tables.drop(T)
    held = access.hold_reads = asyncio.Event()
    info = start(tables.info(T))
    await turns(5)
    await access.truncate(access.get_segment(T), 400_019)
    access.hold_reads = None
    held.set()
    assert (await info).entry_count == 4
    assert (await tables.get(T, [b"k0"]))[0].version == version
    tables.check()
    await tables.close()


async def test_a_rebuild_forgets_what_it_read_before_it_was_overtaken(access):
    tables = tables_on(access)
    await tables.create(T)
    await tables.update(T, [entry("gone", b"x" * 300_000)])
    await tables.remove(T, [TableKey(b"gone")])
    for n in range(4):
        await tables.update(T, [entry(f"k{n}", b"x" * 400_000)])
    tables.drop(T)
    reads = access.reads
    info = start(tables.info(T))
    while access.reads < reads + 2:  # so that "gone" was seen, and not that it was removed
        await turns(1)
    end_of_removal = 300_000 + 17 + 4 + 17 + 4
    await access.truncate(access.get_segment(T), end_of_removal + 400_019)
    assert (await info).entry_count == 3
    await tables.close()


async def test_a_log_that_begins_behind_its_start_offset_is_not_scanned_for_ever(tables, access):
    await tables.update(T, [entry("k", b"v"), entry("k2", b"v")])
    tables.drop(T)
    access.get_segment(T).start_offset = 19
    with pytest.raises(SegmentTruncatedError):
        await tables.get(T, [b"k2"])


async def test_many_who_ask_first_cause_one_rebuild_and_a_cancelled_one_does_not_matter(tables):
    await tables.update(T, [entry(f"k{n}", b"x" * 1000) for n in range(2000)])
    tables.drop(T)
    gets = [start(tables.get(T, [b"k7"])) for _ in range(10)]
    await turns(2)
    gets[0].cancel()
    results = await asyncio.gather(*gets, return_exceptions=True)
    assert all(result[0].value == b"x" * 1000 for result in results[1:])
    assert tables.statistics().rebuilds == 2


async def test_a_rebuild_that_fails_fails_for_all_who_wait_for_it(tables, access, monkeypatch):
    await tables.update(T, [entry("k", b"v")])
    tables.drop(T)
    reads = 0

    async def read_broken(*_args, **_keywords):
        nonlocal reads
        reads += 1
        await asyncio.sleep(0)
        raise DataCorruptionError("the log is damaged")

    with monkeypatch.context() as patch:
        patch.setattr(access, "read", read_broken)
        gets = [start(tables.get(T, [b"k"])) for _ in range(10)]
        answers = await asyncio.gather(*gets, return_exceptions=True)
    assert [type(answer) for answer in answers] == [DataCorruptionError] * 10
    assert reads == 1
    assert (await tables.get(T, [b"k"]))[0].value == b"v"  # who asks later is not told of old failures


async def test_what_is_not_indexed_of_all_tables_has_a_bound(access):
    tables = tables_on(access, TablesConfig(index_bytes_max=3000))
    access.indexes.hold_writes = asyncio.Event()
    for n in range(5):
        await tables.create(f"t{n}")
        await tables.update(f"t{n}", [entry(f"{n}{k}", b"v") for k in range(8)])
    assert tables.statistics().tables_open == 2  # the last one, and one that is being written
    access.indexes.hold_writes.set()
    access.indexes.hold_writes = None
    await turns()
    for n in range(5):
        assert (await tables.get(f"t{n}", [b"%d7" % n]))[0].value == b"v"
        await tables.update(f"t{n}", [entry(f"{n}7", b"w")])
        await turns()
    assert tables.statistics().index_bytes <= 3000
    assert tables.statistics().index_rounds > 2
    # One update may be larger than the bound.
    await tables.update("t0", [entry(f"k{k}") for k in range(10_000)])
    assert (await tables.info("t0")).entry_count == 10_008
    await turns()
    assert tables.statistics().index_bytes <= 3000
    tables.check()


async def test_a_log_with_a_flipped_bit_or_a_cut_is_never_taken_for_a_table(tables, access):
    await tables.update(T, [entry("k1", b"v1"), entry("k2", b"v2")])
    data = access.disks[T].data
    for damage in (lambda: data.__setitem__(21, 3), lambda: data.__setitem__(24, 200)):
        before = bytes(data)
        damage()
        access.evict(T)
        with pytest.raises(DataCorruptionError):
            await tables.get(T, [b"k1"])
        data[:] = before
    del data[-1:]
    access.evict(T)
    with pytest.raises(DataCorruptionError):
        await tables.get(T, [b"k1"])
    del data[21:]
    access.evict(T)
    assert (await tables.get(T, [b"k1"]))[0].value == b"v1"


async def test_a_value_damaged_behind_the_index_is_corruption_not_absence(access):
    tables = tables_on(access, TablesConfig())
    await tables.create(T)
    await tables.update(T, [entry("k1", b"v1"), entry("k2", b"v2")])
    access.disks[T].data[39] ^= 1  # in the key of the second entry
    with pytest.raises(DataCorruptionError) as caught:
        await tables.get(T, [b"k2"])
    assert caught.value.offset == 21


# ------------------------------------------------------------------------------------------ iterators


async def test_pages_of_a_hash_table_end_with_an_empty_page_and_an_empty_token(tables):
    await tables.update(T, [entry(f"k{n:02}", b"%d" % n) for n in range(20)])
    assert await all_keys(tables, 7) == [b"k%02d" % n for n in range(20)]
    assert await all_keys(tables, 20) == [b"k%02d" % n for n in range(20)]
    entries, token = await tables.entries(T, b"", 3)
    assert all(item.value == b"%d" % int(item.key[1:]) for item in entries)
    more, _ = await tables.entries(T, token, 100)
    assert len(more) == 17
    assert sorted(item.key for item in entries + more) == [b"k%02d" % n for n in range(20)]


async def test_keys_there_during_a_whole_iteration_come_exactly_once(tables, access):
    stable = [b"s%03d" % n for n in range(100)]
    await tables.update(T, [entry(key, b"x") for key in stable])
    seen, token, number = [], b"", 0
    while True:
        page, token = await tables.keys(T, token, 9)
        if not page:
            break
        seen += [item.key for item in page]
        number += 1
        await tables.update(T, [entry(b"s%03d+" % (n * number % 100)) for n in range(7)])
        await tables.update(T, [entry(stable[number * 7 % 100], b"rewritten")])
        await tables.remove(T, [TableKey(b"s%03d+" % (n * 3)) for n in range(30)])
        if number % 3 == 0:
            tables.drop(T)
        if number % 4 == 0:
            access.evict(T)
    assert sorted(key for key in seen if not key.endswith(b"+")) == stable
    assert len(set(seen)) == len(seen)


async def test_a_page_removed_while_its_values_are_read_does_not_end_the_iteration(access):
    tables = tables_on(access, TablesConfig())
    await tables.create(T)
    await tables.create("fixed", 2)
    for name in (T, "fixed"):
        await tables.update(name, [entry("k1", b"1"), entry("k2", b"2"), entry("k3", b"3")])
        page = start(tables.entries(name, b"", 2))
        await tables.info(name)
        removal = start(tables.remove(name, [TableKey(b"k1"), TableKey(b"k2")]))
        entries, _ = await page
        assert entries
        await removal


async def test_an_alien_token_or_a_range_is_refused_by_hash_tables(tables):
    for token, from_key, to_key in [(b"\x02k", b"", b""), (b"", b"a", b""), (b"", b"", b"z")]:
        with pytest.raises(InvalidArgumentError):
            await tables.keys(T, token, 10, from_key, to_key)


async def test_tables_of_fixed_keys_iterate_over_inclusive_ranges_in_order(tables):
    await tables.create("fixed", 2)
    names = [bytes([a, b]) for a in (0, 1, 127, 128, 255) for b in (0, 128, 255)]
    await tables.update("fixed", [entry(key, key) for key in reversed(names)])

    async def keys(from_key, to_key, count=100):
        page, token = await tables.entries("fixed", b"", count, from_key, to_key)
        assert token == b""
        assert all(item.key == item.value for item in page)
        assert page == page[:count]
        return [item.key for item in page]

    assert await keys(b"", b"") == names
    assert await keys(names[3], names[5]) == names[3:6]
    assert await keys(names[3], b"", 2) == names[3:5]
    assert await keys(b"", names[2]) == names[:3]
    assert await keys(b"\x02\x00", b"\x7e\xff") == []
    with pytest.raises(InvalidArgumentError):
        await tables.keys("fixed", b"\x01ab", 10)


async def test_tables_of_fixed_keys_enforce_the_length_and_do_all_that_others_do(tables):
    await tables.create("fixed", 4)
    for key in (b"abc", b"abcde", b""):
        with pytest.raises(InvalidArgumentError):
            await tables.update("fixed", [entry(key)])
        with pytest.raises(InvalidArgumentError):
            await tables.get("fixed", [key])
        with pytest.raises(InvalidArgumentError):
            await tables.remove("fixed", [TableKey(key)])
    assert (await tables.info("fixed")).key_length == 4
    await tables.update("fixed", [entry("four", b"v")])
    assert [item.key for item in (await tables.delta("fixed", 0, 10)).entries] == [b"four"]
    with pytest.raises(TableNotEmptyError):
        await tables.delete("fixed", must_be_empty=True)
    await tables.remove("fixed", [TableKey(b"four")])
    await tables.delete("fixed", must_be_empty=True)
    with pytest.raises(NoSuchSegmentError):
        await tables.info("fixed")


async def test_pages_are_bounded_in_bytes_whatever_count_is_asked_for(access):
    tables = tables_on(access, TablesConfig(page_bytes_max=1000))
    await tables.create(T)
    await tables.update(T, [entry(f"k{n:02}", b"x" * 180) for n in range(50)])
    assert len((await tables.entries(T, b"", 1 << 31))[0]) == 4
    assert len((await tables.keys(T, b"", 1 << 31))[0]) == 43
    assert len((await tables.delta(T, 0, 1 << 31)).entries) == 4
    one = TABLE_ITEM_BYTES + 3 + 180
    assert len((await tables.entries(T, b"", 50, bytes_max=2 * one + 50))[0]) == 2
    assert len((await tables.keys(T, b"", 50, bytes_max=2 * one))[0]) == 2 * one // 23
    assert len((await tables.delta(T, 0, 50, bytes_max=2 * one)).entries) == 2


async def test_what_takes_more_than_an_answer_may_have_is_said_before_anything_is_fetched(access):
    tables = tables_on(access, TablesConfig(page_bytes_max=100))
    await tables.create(T)
    keys = [b"k%02d" % n for n in range(10)]
    await tables.update(T, [entry(key, b"x" * 180) for key in keys])
    one = TABLE_ITEM_BYTES + 3 + 180
    nothing = TABLE_ITEM_BYTES + 6
    reads = access.reads
    for ask, size in (
        (lambda size: tables.get(T, [*keys, b"absent"], size), 10 * one + nothing),
        (lambda size: tables.get(T, [keys[0]] * 5, size), 5 * one),
        (lambda size: tables.entries(T, b"", 10, bytes_max=size), one),
    ):
        with pytest.raises(AnswerTooLargeError) as caught:
            await ask(size - 1)
        assert caught.value.size_bytes == size
        assert access.reads == reads
        await ask(size)
        reads = access.reads
    for ask, size in (
        (lambda size: tables.keys(T, b"", 10, bytes_max=size), one - 180),
        (lambda size: tables.delta(T, 0, 10, bytes_max=size), one),
    ):
        with pytest.raises(AnswerTooLargeError) as caught:
            await ask(size - 1)
        assert caught.value.size_bytes == size
        await ask(size)
    with pytest.raises(AnswerTooLargeError) as caught:
        await tables.delta(T, 0, 10, bytes_max=one - 1)
    assert caught.value.size_bytes == one
    assert len((await tables.delta(T, 0, 10, bytes_max=one)).entries) == 1


@pytest.mark.slow
async def test_ten_thousand_keys_are_ordered_and_rebuilt(tables):
    names = [b"%05d" % (n * 7919 % 10_000) for n in range(10_000)]
    for at in range(0, 10_000, 1000):
        await tables.update(T, [entry(key, key[::-1]) for key in names[at : at + 1000]])
    for _ in range(2):
        assert await all_keys(tables, 999) == sorted(names)
        found = await tables.get(T, names[::37])
        assert all(item.value == item.key[::-1] for item in found)
        tables.drop(T)
    tables.check()


# ------------------------------------------------------------------------------------------ deltas


async def test_a_delta_goes_on_where_the_last_one_ended(tables):
    await tables.update(T, [entry(f"k{n}", b"v") for n in range(5)])
    first = await tables.delta(T, 0, 2)
    assert ([item.key for item in first.entries], first.reached_end, first.should_clear) == (
        [b"k0", b"k1"],
        False,
        False,
    )
    rest = await tables.delta(T, first.last_position, 10)
    assert ([item.key for item in rest.entries], rest.reached_end) == ([b"k2", b"k3", b"k4"], True)
    end = rest.last_position
    assert end == (await tables.info(T)).length
    nothing = await tables.delta(T, end, 10)
    assert (nothing.entries, nothing.reached_end, nothing.last_position) == ([], True, end)
    await tables.update(T, [entry("k1", b"new")])
    [changed] = (await tables.delta(T, end, 10)).entries
    assert (changed.key, changed.value, changed.version) == (b"k1", b"new", end)


async def test_removals_alone_never_end_a_delta(tables):
    await tables.update(T, [entry(f"k{n}", b"v" * 100) for n in range(5000)])
    position = (await tables.info(T)).length
    await tables.remove(T, [TableKey(b"k%d" % n) for n in range(5000)])
    await tables.update(T, [entry("last")])
    delta = await tables.delta(T, position, 1)
    assert [item.key for item in delta.entries] == [b"last"]
    assert delta.reached_end
    everything = await tables.delta(T, 0, 100_000)
    assert [item.key for item in everything.entries] == [b"last"]


async def test_a_position_outside_the_log_or_between_entries_is_refused_and_harms_nothing(tables):
    await tables.update(T, [entry("k1", b"v1"), entry("k2", b"v2")])
    for position in (-1, 43, 1 << 40):
        with pytest.raises(InvalidArgumentError):
            await tables.delta(T, position, 10)
    for position in set(range(1, 42)) - {21}:
        with pytest.raises(InvalidArgumentError):
            await tables.delta(T, position, 10)


# ------------------------------------------------------------------------------------------ compaction


def small(**settings):
    return TablesConfig(**{"compaction_bytes_max": 500, **settings})


async def replayed(access, name=T):
    """What a new owner would find."""
    successor = tables_on(MemorySegments(access.disks), TablesConfig(compaction_bytes_max=1 << 40))
    keys = [item.key for item in (await successor.keys(name, b"", 10_000))[0]]
    found = await successor.get(name, keys)
    await successor.close()
    return {item.key: (item.value, item.version) for item in found}


@pytest.mark.slow
async def test_a_log_rewritten_for_long_stays_small_and_keeps_versions(access):
    tables = tables_on(access, small())
    await tables.create(T)
    model = {}
    for n in range(3000):
        key = b"cold%d" % n if n < 20 else b"hot%d" % (n % 5)
        [version] = await tables.update(T, [entry(key, b"%d" % n)])
        model[key] = (b"%d" % n, version)
    await turns(500)
    info = await tables.info(T)
    assert info.length > 60_000
    assert info.length - info.start_offset < 2500
    assert await replayed(access) == model
    found = await tables.get(T, list(model))
    assert {item.key: (item.value, item.version) for item in found} == model
    # The old versions still work as conditions.
    await tables.update(T, [entry("cold0", b"new", model[b"cold0"][1])])
    with pytest.raises(TableKeyVersionError):
        await tables.remove(T, [TableKey(b"cold1", model[b"cold2"][1])])
    await tables.close()


async def test_a_delta_from_before_the_compaction_says_clear_and_still_has_every_key(access):
    tables = tables_on(access, small())
    await tables.create(T)
    await tables.update(T, [entry("cold", b"c")])
    for n in range(200):
        await tables.update(T, [entry("hot", b"%d" % n)])
    await turns(500)
    assert access.get_segment(T).start_offset > 0
    seen, position, cleared = {}, 1, []
    while True:
        delta = await tables.delta(T, position, 1)
        cleared.append(delta.should_clear)
        seen.update({item.key: (item.value, item.version) for item in delta.entries})
        position = delta.last_position
        if delta.reached_end:
            break
    assert seen == await replayed(access)
    assert cleared[0]
    assert not any(cleared[1:])
    await tables.close()


@pytest.mark.slow
async def test_a_crash_at_any_step_of_a_compaction_leaves_the_table_equal(access):
    """Commits one operation at a time and compares what a successor would find after each."""
    access.auto_commit = False
    tables = tables_on(access, small())
    model, checked, starts = {}, 0, set()

    async def run(request):
        nonlocal checked
        task = start(request)
        while not task.done():
            await turns(5)
            access.commit(1)
            found = await replayed(access) if T in access.disks else {}
            # The update under way may have become durable; nothing else may differ.
            assert {key: found.get(key) for key in model if key != touched} == {
                key: value for key, value in model.items() if key != touched
            }
            if T in access.disks:
                starts.add(access.disks[T].start_offset)
            checked += 1
        return await task

    touched = None
    await run(tables.create(T))
    for n in range(150):
        touched = b"k%d" % (n % 7 if n % 3 else n)
        if n % 11 == 5:
            await run(tables.remove(T, [TableKey(touched)]))
            model.pop(touched, None)
        else:
            [version] = await run(tables.update(T, [entry(touched, b"v%d" % n)]))
            model[touched] = (b"v%d" % n, version)
    assert checked > 150
    assert len(starts) > 5  # compaction did go on meanwhile
    await tables.close()


async def test_a_read_overtaken_by_compaction_looks_again(access):
    tables = tables_on(access, small())
    await tables.create(T)
    await tables.update(T, [entry("cold", b"c" * 50)])
    for n in range(200):
        await asyncio.gather(
            tables.update(T, [entry("hot", b"%d" % n)]),
            *[tables.get(T, [b"cold", b"hot"]) for _ in range(3)],
            tables.entries(T, b"", 10),
            tables.delta(T, 0, 10),
        )
    assert (await tables.get(T, [b"cold"]))[0].value == b"c" * 50
    assert tables.statistics().compaction_rounds > 3
    await tables.close()


async def test_a_value_moved_while_it_is_being_read_is_found_at_its_new_place(access):
    tables = tables_on(access, small())
    await tables.create(T)
    await tables.update(T, [entry("cold", b"c" * 50)])
    await tables.update(T, [entry("hot", b"x" * 50) for _ in range(8)])
    held = access.hold_reads = asyncio.Event()
    get = start(tables.get(T, [b"cold"]))
    page = start(tables.entries(T, b"", 10))
    delta = start(tables.delta(T, 0, 10))
    await turns(3)
    access.hold_reads = None
    await tables.update(T, [entry("hot", b"y" * 50)])
    await turns(50)
    assert access.get_segment(T).start_offset > 0
    held.set()
    assert await get == [entry("cold", b"c" * 50, 0)]
    assert {item.key for item in (await page)[0]} == {b"cold", b"hot"}
    assert (await delta).should_clear
    assert {item.key for item in (await delta).entries} == {b"cold", b"hot"}
    await tables.close()


async def test_a_key_updated_while_it_is_being_moved_keeps_the_update(access):
    tables = tables_on(access, small())
    await tables.create(T)
    await tables.update(T, [entry("cold", b"old")])
    await tables.update(T, [entry("hot", b"x" * 50) for _ in range(8)])
    access.auto_commit = False
    task = start(tables.update(T, [entry("hot", b"y" * 50)]))
    await turns(3)
    access.commit()
    await task  # compaction begins
    while access.pending_count == 0:  # noqa: ASYNC110 - the turn itself is what is waited for
        await asyncio.sleep(0)
    update = start(tables.update(T, [entry("cold", b"new", 0)]))  # behind the copy, with the old version
    await turns(5)
    access.auto_commit = True
    access.commit()
    [version] = await update
    await turns(100)
    assert await tables.get(T, [b"cold"]) == [entry("cold", b"new", version)]
    assert (await replayed(access))[b"cold"] == (b"new", version)
    assert access.get_segment(T).start_offset > 0
    await tables.close()


async def test_nothing_is_cut_off_before_what_supersedes_it_is_durable(access):
    tables = tables_on(access, small())
    await tables.create(T)
    await tables.update(T, [entry("cold", b"old")])
    await tables.update(T, [entry("hot", b"x" * 50) for _ in range(8)])
    await tables.update(T, [entry("hot", b"y" * 50)])  # compaction begins
    access.suspend_appends = asyncio.Event()
    updates = [start(tables.update(T, [entry(key, b"new")])) for key in ("cold", "hot")]
    await turns(50)
    assert access.get_segment(T).accepted_start_offset == 0
    access.refuse_next = ThrottledError("full")
    access.suspend_appends.set()
    results = await asyncio.gather(*updates, return_exceptions=True)
    assert isinstance(results[0], ThrottledError)
    await turns(50)
    assert {key: value for key, (value, _) in (await replayed(access)).items()} == {
        b"cold": b"old",
        b"hot": b"new",
    }
    await tables.close()


async def test_a_compaction_refused_is_tried_again_after_a_later_update(access):
    tables = tables_on(access, small())
    await tables.create(T)
    await tables.update(T, [entry("cold", b"old")])
    await tables.update(T, [entry("hot", b"x" * 50) for _ in range(8)])
    await tables.update(T, [entry("hot", b"y" * 50)])
    access.refuse_next = ThrottledError("full")
    await turns(50)
    assert access.refuse_next is None
    assert access.get_segment(T).start_offset == 0
    await tables.update(T, [entry("hot", b"z")])
    await turns(50)
    assert access.get_segment(T).start_offset > 0
    assert set(await replayed(access)) == {b"cold", b"hot"}
    await tables.close()


async def test_a_table_deleted_while_it_is_compacted_is_gone(access, caplog):
    tables = tables_on(access, small())
    await tables.create(T)
    await tables.update(T, [entry("cold", b"old")])
    await tables.update(T, [entry("hot", b"x" * 50) for _ in range(12)])
    await tables.delete(T)
    await turns(50)
    assert T not in access.disks
    assert not caplog.records
    await tables.close()
