"""What readers of rows answer about epochs and cuts, compared with a whole history in memory."""

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.controller.store.layout import details_table
from headrace.controller.store.rows.sealed_row import SealedRow
from headrace.controller.store.rows.stream_row import (
    CommitBatch,
    Roll,
    RollPhase,
    ScalePhase,
    ScalePlan,
    StreamRow,
    StreamState,
)
from headrace.controller.streams.cut_reader import CutReader
from headrace.controller.streams.epoch_reader import EpochReader
from headrace.controller.streams.epochs import first_epoch, scaled_epoch
from headrace.controller.streams.history_rows import HistoryRows
from headrace.errors import DataCorruptionError, InvalidArgumentError
from headrace.model.key_space import KeyRange
from headrace.model.policies import StreamConfiguration
from headrace.model.stream_cut import Relation
from headrace.testing.memory_metadata_store import MemoryStore
from tests.effort import examples
from tests.unit.controller.streams import history_model as model
from tests.unit.controller.streams.drawn_histories import histories, reader_cuts, scales

UID = bytes(range(16))
WHOLE = KeyRange(0.0, 1.0)
STRANGE_CUTS = st.dictionaries(
    st.builds(lambda epoch, number: epoch << 32 | number, st.integers(-1, 8), st.integers(0, 12)),
    st.integers(-2, 5),
    max_size=6,
)


async def absence(epoch):
    return DataCorruptionError(f"stream epoch {epoch} is missing")


def row_of(active, **fields):
    return StreamRow(UID, 0, StreamState.ACTIVE, StreamConfiguration(), active, **fields)


async def stored(history, *, ends=True, rows_max=3, **fields):
    """Return the rows of a history as workflows write them, or without ``ends``, as before there were any."""
    store = MemoryStore()
    await store.create_table(details_table(UID))
    rows = HistoryRows(store, rows_max=rows_max)
    sealed = {
        each.segment_id: SealedRow(end)
        for each in history.segments()
        if (end := history.end(each.segment_id)) is not None
    }
    await rows.archive(UID, history.records[:-1] or [first_epoch(1, 9, 0)], sealed if ends else {})
    return EpochReader(rows, row_of(history.records[-1], **fields), absence)


def cuts_of(data, history):
    return data.draw(st.one_of(reader_cuts(history), STRANGE_CUTS))


@given(histories(), st.booleans())
def test_successors_are_those_of_the_whole_history(history, ends):
    async def check():
        epochs = await stored(history, ends=ends)
        for segment in history.segments():
            expected = history.successors(segment.segment_id)
            assert await epochs.successors(segment.segment_id) == expected
        for segment_id in (-1, 77, 99 << 32):
            assert await epochs.successors(segment_id) == []
        assert await epochs.ends([each.segment_id for each in history.segments()]) == {
            each.segment_id: history.end(each.segment_id)
            for each in history.segments()
            if history.end(each.segment_id) is not None
        }

    asyncio.run(check())


@pytest.mark.slow
@given(st.data(), st.booleans())
@settings(max_examples=examples(300))
def test_cuts_are_as_valid_as_by_the_whole_history(data, ends):
    history = data.draw(histories())
    cut = cuts_of(data, history)

    async def check():
        cuts = CutReader(await stored(history, ends=ends))
        assert await cuts.is_valid(cut) is model.is_valid(history, cut)
        if not await cuts.is_valid(cut):
            with pytest.raises(InvalidArgumentError):
                await cuts.check(cut)

    asyncio.run(check())


@pytest.mark.slow
@given(st.data(), st.booleans())
@settings(max_examples=examples(300))
def test_between_any_two_cuts_lies_what_lies_there_by_the_whole_history(data, ends):
    history = data.draw(histories())
    lower, upper = cuts_of(data, history), cuts_of(data, history)

    async def check():
        cuts = CutReader(await stored(history, ends=ends))
        try:
            expected = model.between(history, lower, upper)
        except InvalidArgumentError:
            with pytest.raises(InvalidArgumentError):
                await cuts.between(lower, upper, count_max=1000)
            return
        assert await cuts.between(lower, upper, count_max=1000) == expected
        few = await cuts.between(lower, upper, count_max=2)
        assert few == expected if len(expected) <= 2 else len(few) > 2

    asyncio.run(check())


@pytest.mark.slow
@given(st.data(), st.booleans())
@settings(max_examples=examples(300))
def test_a_stream_that_is_truncated_again_and_again_loses_what_lies_before_its_head(data, ends):
    history = data.draw(histories())

    async def check():
        cuts = CutReader(await stored(history, ends=ends))
        head = None
        gone = set()
        for _ in range(3):
            cut = data.draw(reader_cuts(history))
            if head is not None and await cuts.relate(cut, head) is not Relation.EQUAL_OR_AFTER:
                continue
            passed = [segment.segment_id async for some in cuts.passed(head, cut) for segment in some]
            assert len(passed) == len(set(passed))
            assert gone.isdisjoint(passed)
            gone.update(passed)
            assert gone == model.before(history, cut)
            head = cut
        present = [segment.segment_id async for some in cuts.present(head) for segment in some]
        assert len(present) == len(set(present))
        assert set(present) == {segment.segment_id for segment in history.segments()} - gone

    asyncio.run(check())


@given(st.data())
def test_successors_are_visible_before_their_epoch_is_active(data):
    history = data.draw(histories())
    active = history.records[-1]
    plan = data.draw(scales(active))
    txn_epoch = data.draw(st.integers(0, active.epoch))
    fields = data.draw(
        st.sampled_from(
            [
                {"scale": ScalePlan(plan.base_epoch, plan.sealed, plan.ranges, 0, ScalePhase.REVEALED)},
                {"commit": CommitBatch(txn_epoch, (), Roll(0, RollPhase.REVEALED))},
            ]
        )
    )

    async def check():
        epochs = await stored(history, **fields)
        assert await epochs.find(active.epoch + 1) is None
        visible = EpochReader(epochs._rows, epochs.row, absence, visible=True)
        if "scale" in fields:
            history.extend(scaled_epoch(active, plan))
        else:
            for record in await epochs.rolled():
                history.extend(record)
        sealed = {
            each: SealedRow(history.end(each))
            for each in active.segment_ids()
            if history.end(each) is not None
        }
        await epochs._rows.archive(UID, [active], sealed)
        assert visible.last_epoch == history.last_epoch
        for segment in history.segments():
            assert await visible.successors(segment.segment_id) == history.successors(segment.segment_id)
        for segment in active.segments:
            assert await epochs.successors(segment.segment_id) == []

    asyncio.run(check())


@given(histories(), st.integers(900, 1100))
def test_an_epoch_is_found_by_its_time(history, time_ms):
    async def check():
        epochs = await stored(history)
        expected = sum(record.created_ms < time_ms for record in history.records)
        assert await epochs.count_before(time_ms) == expected

    asyncio.run(check())


# ---------------------------------------------------------------------------------- cost


class CountingStore(MemoryStore):
    """Counts the rows that are read."""

    def __init__(self):
        super().__init__()
        self.rows_read = 0

    async def get_many(self, table, keys):
        self.rows_read += len(keys)
        return await super().get_many(table, keys)


def long_history(count):
    """``count`` epochs of two segments: one stays for ever, the other is replaced in each."""
    records = [first_epoch(2, 0, 1000)]
    for _ in range(count - 1):
        active = records[-1]
        last = active.segments[-1]
        records.append(
            scaled_epoch(active, ScalePlan(active.epoch, (last.segment_id,), (last.key_range,), 0))
        )
    return records


COUNT = min(100_000, examples(80_000))
"""Of the epochs of a long history."""

_LONG = {}


async def long_stream(count):
    """Return (store, epochs), made once: do not change them."""
    if count not in _LONG:
        _LONG[count] = await make_long_stream(count)
    return _LONG[count]


async def make_long_stream(count):
    store = CountingStore()
    await store.create_table(details_table(UID))
    records = long_history(count)
    rows = HistoryRows(store)
    for start in range(0, count - 1, 1000):
        some = records[start : min(start + 1000, count - 1)]
        sealed = {record.segments[-1].segment_id: SealedRow(record.epoch + 1, 5) for record in some}
        await rows.archive(UID, some, sealed)
    return store, records


def young(record, offset):
    """A cut at the two segments of an epoch."""
    return {segment.segment_id: offset for segment in record.segments}


@pytest.mark.parametrize(
    "question",
    ["successors", "between", "valid", "relate", "passed", "segments", "ends"],
)
@pytest.mark.slow
async def test_a_question_costs_the_same_whatever_lies_before(question):
    costs = []
    for count in (10, COUNT):
        store, records = await long_stream(count)
        epochs = EpochReader(HistoryRows(store), row_of(records[-1]), absence)
        cuts = CutReader(epochs)
        lower, upper = young(records[-5], 1), young(records[-2], 2)
        future = {records[-5].segments[1].segment_id: 3, records[-5].segments[0].segment_id: 1}
        future[records[-4].segments[1].segment_id] = -1
        store.rows_read = 0
        if question == "successors":
            segment_id = records[-4].segments[1].segment_id
            (successor,) = await epochs.successors(segment_id)
            assert successor.segment.segment_id == records[-3].segments[1].segment_id
        elif question == "between":
            assert len(await cuts.between(lower, upper, count_max=100)) == 5
        elif question == "valid":
            assert await cuts.is_valid(future)
        elif question == "relate":
            assert await cuts.relate(upper, lower) is Relation.EQUAL_OR_AFTER
        elif question == "passed":
            assert len([each async for some in cuts.passed(lower, upper) for each in some]) == 3
        elif question == "segments":
            assert len(await epochs.find_segments(lower)) == 2
        else:
            assert len(await epochs.ends(lower)) == 1
        costs.append(store.rows_read)
    assert costs[0] == costs[1] <= 12


@pytest.mark.slow
async def test_an_epoch_by_its_time_costs_a_few_rows_of_many():
    store, records = await long_stream(COUNT)
    epochs = EpochReader(HistoryRows(store), row_of(records[-1]), absence)
    store.rows_read = 0
    assert await epochs.count_before(records[COUNT * 7 // 10].created_ms) == COUNT * 7 // 10
    assert store.rows_read <= 17


@pytest.mark.slow
async def test_a_segment_of_an_earlier_release_ends_where_a_few_epochs_say():
    store, records = CountingStore(), long_history(5_000)
    await store.create_table(details_table(UID))
    rows = HistoryRows(store)
    for start in range(0, 4_999, 1000):
        await rows.archive(UID, records[start : min(start + 1000, 4_999)], {})
    epochs = EpochReader(rows, row_of(records[-1]), absence)
    store.rows_read = 0
    segment_id = records[1_000].segments[1].segment_id
    (successor,) = await epochs.successors(segment_id)
    assert successor.segment.segment_id == records[1_001].segments[1].segment_id
    assert store.rows_read <= 20


@pytest.mark.slow
async def test_what_is_cached_is_bounded_however_far_a_walk_goes():
    store, records = await long_stream(COUNT)
    rows = HistoryRows(store, rows_max=100, bytes_max=20_000)
    epochs = EpochReader(rows, row_of(records[-1]), absence)
    assert len(await CutReader(epochs).between(young(records[0], 0), {}, count_max=200_000)) == COUNT + 1
    for epoch in range(0, COUNT - 1, 31):
        assert (await epochs.find(epoch)).epoch == epoch
    statistics = rows.statistics()
    assert statistics.rows_cached <= 100
    assert statistics.bytes_cached <= 20_000


async def test_an_epoch_whose_row_is_missing_is_named():
    store, records = await make_long_stream(10)
    rows = HistoryRows(store)
    await rows.remove(UID, records[5])
    epochs = EpochReader(rows, row_of(records[-1]), absence)
    with pytest.raises(DataCorruptionError, match="epoch 4"):
        await epochs.find(4)
    assert (await epochs.find(7)).epoch == 7


@pytest.mark.slow
async def test_removing_a_history_leaves_nothing_of_it_wherever_it_was_interrupted():
    store, records = await make_long_stream(2_500)
    rows = HistoryRows(store)
    calls = 0
    update = store.update

    async def failing(table, writes):
        nonlocal calls
        calls += 1
        if calls in {2, 5, 9, 14, 20, 27}:
            raise ConnectionError
        return await update(table, writes)

    store.update = failing
    for _ in range(7):
        try:
            await rows.remove(UID, records[-1])
        except ConnectionError:
            continue
        break
    assert (await store.scan(details_table(UID), b"", 10)).rows == []
