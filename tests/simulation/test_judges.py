"""The judges can convict: each bug here is a plausible one, and a handful of seeds finds it."""

import asyncio
import dataclasses
import logging

import pytest

from headrace.errors import AttributeMismatchError, CorruptionError, FencedOutError, NoSuchSegmentError
from headrace.model.attributes import ATTRIBUTE_NULL, EVENT_COUNT
from headrace.model.tables import NO_VERSION, TableEntry
from headrace.segmentstore.container.container import SegmentContainer
from headrace.segmentstore.container.segment_merges import SegmentMerges
from headrace.segmentstore.durablelog import log_replay
from headrace.segmentstore.durablelog.append_batches import AppendBatches, OpenBatch
from headrace.segmentstore.durablelog.frame_dispatch import FrameDispatch
from headrace.segmentstore.durablelog.log_replay import LogReplay
from headrace.segmentstore.ingress.append_session import AppendSession
from headrace.segmentstore.ingress.budget import ByteBudget
from headrace.segmentstore.operations import catalogue as ops
from headrace.segmentstore.readindex.storage_fetches import StorageFetches
from headrace.segmentstore.storagewriter.config import StorageWriterConfig
from headrace.segmentstore.storagewriter.flushing import Flushing
from headrace.segmentstore.store import SegmentStore
from headrace.segmentstore.tables.state import TableState
from headrace.testing.loop_time import MillisecondTime
from headrace.testing.simulation import simulate
from headrace.wal.memory import MemoryWal
from tests.effort import sampled
from tests.simulation.run_seeds import run_one
from tests.simulation.worlds.writer_world import WriterWorld


@pytest.fixture(autouse=True)
def _errors_only():
    logging.getLogger("headrace").setLevel(logging.CRITICAL)
    yield
    logging.getLogger("headrace").setLevel(logging.NOTSET)


class _Answered:
    """Where the answers of blocks go that were answered already."""

    def __init__(self, writer_id):
        self.writer_id = writer_id

    def on_durable(self, *_):
        """It was notified."""

    def on_failed(self, _):
        """It was notified of success."""


def acknowledge_before_the_log_has_it(monkeypatch):
    honest = FrameDispatch.send

    def send(dispatch):
        before = dispatch.frames_in_flight
        honest(dispatch)
        for frame in list(dispatch._in_flight)[before:]:
            for item in frame.items:
                if type(item) is OpenBatch:
                    owner, item.owner = item.owner, _Answered(item.owner.writer_id)
                    owner.on_durable(item.last_event_number, item.request_id, item.offset + item.length)

    monkeypatch.setattr(FrameDispatch, "send", send)


def forget_what_a_writer_has_in_flight(monkeypatch):
    """A writer that reconnects while its blocks are in flight may send them again."""
    honest = AppendBatches.append_block

    def append_block(batches, segment, owner, pieces, size, previous, *rest):
        try:
            honest(batches, segment, owner, pieces, size, previous, *rest)
        except AttributeMismatchError:
            known = segment.attributes.accepted.get(owner.writer_id, ATTRIBUTE_NULL)
            honest(batches, segment, owner, pieces, size, known, *rest)

    monkeypatch.setattr(AppendBatches, "append_block", append_block)


def take_a_block_again_that_was_acknowledged(monkeypatch):
    honest = AppendSession.append

    def append(session, pieces, size, numbers, request_ids, event_count, expected_offset=-1):
        target = session.target
        fresh = numbers[0] > session._accepted or expected_offset >= 0
        if fresh or not target.can_accept(size):
            return honest(session, pieces, size, numbers, request_ids, event_count, expected_offset)
        target.append_block(
            session,
            pieces,
            size,
            previous_event_number=session._accepted,
            last_event_number=numbers[-1],
            event_count=event_count,
            request_id=request_ids[-1],
        )
        if not session.in_flight:
            session._connection.on_busy(1)
        session._accepted = numbers[-1]
        return True

    monkeypatch.setattr(AppendSession, "append", append)


def reorder_blocks_of_one_batch(monkeypatch):
    honest = AppendBatches.append_block

    def append_block(batches, segment, owner, pieces, *rest):
        honest(batches, segment, owner, pieces[::-1], *rest)

    monkeypatch.setattr(AppendBatches, "append_block", append_block)


def count_events_twice_in_recovery(monkeypatch):
    honest = log_replay.make_visible

    def make_visible(container, operation, *rest):
        honest(container, operation, *rest)
        if isinstance(operation, ops.AppendBatch):
            container.by_id[operation.segment_id].attributes.durable[EVENT_COUNT] += operation.event_count

    monkeypatch.setattr(log_replay, "make_visible", make_visible)


def forget_truncations_in_recovery(monkeypatch):
    honest = LogReplay._replay

    def replay(self, operation, time_ms):
        if isinstance(operation, ops.Truncate):
            operation = dataclasses.replace(operation, offset=0)
        honest(self, operation, time_ms)

    monkeypatch.setattr(LogReplay, "_replay", replay)


def acknowledge_although_fenced(monkeypatch):
    honest = MemoryWal._find_failure
    stored = MemoryWal._store_frame

    def find_failure(wal, frame):
        error = honest(wal, frame)
        return None if isinstance(error, FencedOutError) else error

    def store_frame(wal, frame):
        if wal._log.epoch == wal._container_epoch:
            stored(wal, frame)

    monkeypatch.setattr(MemoryWal, "_find_failure", find_failure)
    monkeypatch.setattr(MemoryWal, "_store_frame", store_frame)


def serve_zeros_for_what_left_the_cache(monkeypatch):
    honest = StorageFetches._read

    async def read(fetches, fetch):
        return memoryview(bytes(len(await honest(fetches, fetch))))

    monkeypatch.setattr(StorageFetches, "_read", read)


def merge_twice(monkeypatch):
    honest = SegmentContainer.merge

    async def merge(container, target, source_name, updates=()):
        source = container.find_nowait(source_name)
        content = b""
        if source is not None and source.durable_length and not source.start_offset:
            content = (await container.read(source, 0, source.durable_length, wait=False)).to_bytes()
        length = await honest(container, target, source_name, updates)
        if content:
            await container.append(target, content)
        return length

    monkeypatch.setattr(SegmentContainer, "merge", merge)


def merge_a_batch_in_any_order(monkeypatch):
    honest = SegmentContainer.merge_batch

    async def merge_batch(container, target, source_names):
        return (await honest(container, target, source_names[::-1]))[::-1]

    monkeypatch.setattr(SegmentContainer, "merge_batch", merge_batch)


def leave_updates_of_a_merge_out(monkeypatch):
    honest = SegmentContainer.merge

    async def merge(container, target, source_name, updates=()):
        return await honest(container, target, source_name)

    monkeypatch.setattr(SegmentContainer, "merge", merge)


def forget_the_conditions_of_a_table(monkeypatch):
    honest = SegmentStore.table_update

    async def table_update(store, segment, entries, expected_length=-1):
        entries = [TableEntry(entry.key, entry.value) for entry in entries]
        return await honest(store, segment, entries, expected_length)

    monkeypatch.setattr(SegmentStore, "table_update", table_update)


def remove_from_a_table_only_on_condition(monkeypatch):
    honest = SegmentStore.table_remove

    async def table_remove(store, segment, keys, expected_length=-1):
        await honest(store, segment, [key for key in keys if key.version != NO_VERSION], expected_length)

    monkeypatch.setattr(SegmentStore, "table_remove", table_remove)


def forget_a_timer_that_struck_early(monkeypatch):
    """What it was set for is not due yet, to the last bit, and it counts as one that is still to come."""
    honest, last = Flushing._wake_at, [None]

    def wake_at(flushing):
        at = honest(flushing)
        if at is not None and at == last[0] and at < asyncio.get_running_loop().time() + 0.001:
            return None
        last[0] = at
        return at

    monkeypatch.setattr("headrace.segmentstore.storagewriter.flushing._EARLY_S", 0.0)
    monkeypatch.setattr(Flushing, "_wake_at", wake_at)


def refuse_what_is_not_durable(monkeypatch):
    async def check_refusal(container):
        await container.check_owner()

    monkeypatch.setattr(SegmentContainer, "check_refusal", check_refusal)


def merge_what_somebody_deletes(monkeypatch):
    honest = SegmentMerges._finish

    async def finish(merges, target, source, *rest):
        try:
            return await honest(merges, target, source, *rest)
        except NoSuchSegmentError as error:
            if error.segment != source.name:
                raise
            await merges._log.flush()
            return None

    monkeypatch.setattr(SegmentMerges, "_finish", finish)


def judge_tables_by_what_is_durable(monkeypatch):
    monkeypatch.setattr(TableState, "find_accepted", TableState.find_durable)


def forget_sources_of_what_was_merged(monkeypatch):
    monkeypatch.setattr(
        "headrace.segmentstore.storagewriter.segment_flusher.queue_source_deletions", lambda aggregator: []
    )


def forget_waiters_for_free_bytes(monkeypatch):
    monkeypatch.setattr(ByteBudget, "serve", lambda budget: None)


#: Each with the scenario that has to find it, in how many seeds, and the last seed that did: it goes first.
BUGS = [
    (acknowledge_before_the_log_has_it, "data_plane", 40, 13),
    (forget_what_a_writer_has_in_flight, "container", 60, 23),
    (take_a_block_again_that_was_acknowledged, "data_plane", 12, 1),
    (reorder_blocks_of_one_batch, "data_plane", 12, 10),
    (count_events_twice_in_recovery, "data_plane", 12, 0),
    (forget_truncations_in_recovery, "data_plane", 12, 0),
    (acknowledge_although_fenced, "data_plane", 40, 13),
    (serve_zeros_for_what_left_the_cache, "data_plane", 12, 1),
    (merge_twice, "data_plane", 12, 0),
    (merge_a_batch_in_any_order, "data_plane", 12, 5),
    (leave_updates_of_a_merge_out, "data_plane", 12, 0),
    (forget_the_conditions_of_a_table, "data_plane", 12, 0),
    (remove_from_a_table_only_on_condition, "data_plane", 12, 0),
    (refuse_what_is_not_durable, "crowds", 160, 159),
    (merge_what_somebody_deletes, "crowds", 12, 10),
    (judge_tables_by_what_is_durable, "crowds", 12, 7),
    (forget_sources_of_what_was_merged, "chains", 12, 9),
    (forget_waiters_for_free_bytes, "data_plane", 40, 4),
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("plant", "scenario", "seeds", "first"), sampled(BUGS), ids=lambda value: getattr(value, "__name__", "")
)
def test_a_planted_bug_is_found(plant, scenario, seeds, first, monkeypatch):
    plant(monkeypatch)
    for seed in (first, *range(seeds)):
        try:
            run_one(scenario, seed)
        except (AssertionError, CorruptionError):  # of the judge, or the store sees it itself
            return
    pytest.fail(f"{seeds} seeds have not found it")


def test_what_is_due_is_stored_on_loops_whose_timers_strike_early():
    async def scenario(_):
        world = WriterWorld(writer_config=StorageWriterConfig(flush_age_s=0.1))
        writer = asyncio.ensure_future(world.writer.run())
        await asyncio.sleep(0.001)
        world.append("s", b"event")
        await asyncio.sleep(5)
        writer.cancel()
        await asyncio.wait([writer])
        return world.segments["s"].stored_length

    hours = 20 * 3_600_000
    for number in range(20):
        assert simulate(1, scenario, loop_time=MillisecondTime(hours + 7 * number)).value == len(b"event")


def test_loops_that_tell_milliseconds_find_a_timer_that_is_forgotten_when_it_strikes_early(monkeypatch):
    def count_unstored():
        async def scenario(_):
            world = WriterWorld(writer_config=StorageWriterConfig(flush_age_s=0.1))
            writer = asyncio.ensure_future(world.writer.run())
            await asyncio.sleep(0.001)
            world.append("s", b"event")
            await asyncio.sleep(5)
            writer.cancel()
            await asyncio.wait([writer])
            return world.segments["s"].stored_length == 0

        hours = 20 * 3_600_000
        return sum(
            simulate(1, scenario, loop_time=MillisecondTime(hours + 7 * number)).value for number in range(20)
        )

    assert count_unstored() == 0
    forget_a_timer_that_struck_early(monkeypatch)
    assert count_unstored() > 0
