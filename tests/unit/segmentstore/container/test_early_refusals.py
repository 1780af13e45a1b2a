"""A refusal that callers take for success is given once what it follows from is durable, never before.

The log stands, a request is on its way, and whoever sent it asks again: after a crash neither happened.
"""

import asyncio

import pytest

from headrace.errors import (
    AttributeMismatchError,
    ContainerOfflineError,
    InvalidArgumentError,
    NoSuchSegmentError,
    SegmentSealedError,
    WalWriteError,
)
from headrace.model.attributes import ATTRIBUTE_NULL, AttributeUpdate, UpdateKind
from headrace.runtime.entropy import SeededEntropy
from headrace.segmentstore.container import segment_merges
from headrace.segmentstore.store import SegmentStore
from tests.unit.segmentstore.container.container_bench import (
    Bench,
    HeldWal,
    append,
    queued,
    read_all,
    until,
    withhold_memory,
)
from tests.unit.segmentstore.container.test_fenced_owner import Registry

T, A, KEYS = "s/t", "s/a", "s/k"
KEY = b"k" * 16


class World:
    def __init__(self):
        self.bench = Bench()
        self.bench.make_wal = HeldWal

    async def start(self):
        self.container = await self.bench.start()
        self.store = SegmentStore(Registry(self.container), SeededEntropy(1))
        for name in (T, A):
            await self.container.create(name, {})
        await self.container.tables.create(KEYS, 0, 0)
        self.wal = self.container.log._wal
        self.processor = self.container.log.processor

    async def ask_while_the_log_stands(self, *asks):
        """Ask one after the other; return the tasks once nothing moves any more."""
        self.wal.held = True
        tasks = []
        for ask in asks:
            tasks.append(asyncio.ensure_future(ask()))
            for _ in range(50):
                await asyncio.sleep(0)
        return tasks

    async def ask_while_the_line_is_held(self, *asks, operations=None):
        """The same, of requests that are all decided in one turn, by a log that stands then.

        ``operations``: how many they are in the line, by default two of each.
        """
        give_memory = withhold_memory(self.container)
        tasks = [asyncio.ensure_future(ask()) for ask in asks]
        await until(lambda: queued(self.container) == (operations or 2 * len(asks)))
        self.wal.held = True
        give_memory()
        for _ in range(50):
            await asyncio.sleep(0)
        return tasks

    async def crash(self):
        self.bench.container = None
        return await self.bench.start()


@pytest.fixture
async def world():
    world = World()
    await world.start()
    yield world
    if world.wal.held:
        world.wal.go_on()  # the test has failed, or its container was given up
    await world.bench.stop()


VERBS = {
    "delete": lambda store: store.delete_segment(A),
    "delete table": lambda store: store.delete_table(KEYS, must_be_empty=False),
}


@pytest.mark.parametrize("verb", VERBS)
async def test_what_is_being_deleted_is_not_gone_yet(world, verb):
    first, second = await world.ask_while_the_log_stands(*2 * [lambda: VERBS[verb](world.store)])
    assert not first.done()
    assert not second.done()
    world.wal.go_on()
    await first
    with pytest.raises(NoSuchSegmentError):
        await second


async def test_what_is_being_sealed_is_not_sealed_yet(world):
    segment = await world.container.resolve(A)
    first, second = await world.ask_while_the_log_stands(*2 * [lambda: world.container.seal(segment)])
    assert not first.done()
    assert not second.done()
    world.wal.go_on()
    assert await first == 0
    with pytest.raises(SegmentSealedError):
        await second


async def test_a_deletion_that_failed_with_the_log_is_not_told_as_done(world):
    await append(world.container, A, b"data")
    first, second = await world.ask_while_the_log_stands(*2 * [lambda: world.store.delete_segment(A)])
    world.container.log.fail(WalWriteError("the disk is gone"))
    with pytest.raises(WalWriteError):
        await first
    with pytest.raises(ContainerOfflineError):
        await second
    assert await read_all(await world.crash(), A) == b"data"


MERGES = {
    "one": lambda store: store.merge_segments(T, A),
    "batch": lambda store: store.merge_batch(T, [A]),
}


@pytest.mark.parametrize("verb", MERGES)
async def test_a_truncation_that_is_not_durable_spoils_no_merge(world, verb):
    await append(world.container, A, b"data")
    asks = [lambda: world.store.truncate_segment(A, 1), lambda: MERGES[verb](world.store)]
    truncation, merge = await world.ask_while_the_log_stands(*asks)
    assert not merge.done()
    world.wal.go_on()
    await truncation
    with pytest.raises(InvalidArgumentError):
        await merge


@pytest.mark.parametrize("verb", MERGES)
async def test_a_truncation_that_failed_with_the_log_has_spoilt_no_merge(world, verb):
    await append(world.container, A, b"data")
    asks = [lambda: world.store.truncate_segment(A, 1), lambda: MERGES[verb](world.store)]
    truncation, merge = await world.ask_while_the_log_stands(*asks)
    world.container.log.fail(WalWriteError("the disk is gone"))
    with pytest.raises(WalWriteError):
        await truncation
    with pytest.raises(ContainerOfflineError):
        await merge
    container = await world.crash()
    store = SegmentStore(Registry(container), SeededEntropy(1))
    await MERGES[verb](store)
    assert await read_all(container, T) == b"data"


async def test_a_value_that_is_not_durable_is_not_too_large_for_anybody(world):
    await append(world.container, A, b"data")
    more = AttributeUpdate(KEY, UpdateKind.ACCUMULATE, 1)
    asks = [
        lambda: world.store.update_attribute(T, KEY, (1 << 63) - 1, ATTRIBUTE_NULL),
        lambda: world.store.merge_segments(T, A, [more]),
    ]
    update, merge = await world.ask_while_the_log_stands(*asks)
    assert not merge.done()
    world.wal.go_on()
    assert await update
    with pytest.raises(InvalidArgumentError):
        await merge


async def test_an_attribute_that_is_not_durable_refuses_nobody(world):
    tasks = await world.ask_while_the_log_stands(
        *2 * [lambda: world.store.update_attribute(A, KEY, 1, ATTRIBUTE_NULL)]
    )
    assert not any(task.done() for task in tasks)
    world.wal.go_on()
    assert [await task for task in tasks] == [True, False]


@pytest.mark.parametrize("data", [b"data", b""])
async def test_a_merge_that_is_repeated_in_the_line_has_the_answer_of_the_first(world, data):
    if data:
        await append(world.container, A, data)
    tasks = await world.ask_while_the_line_is_held(*2 * [lambda: world.store.merge_segments(T, A)])
    assert not any(task.done() for task in tasks)
    world.wal.go_on()
    assert [await task for task in tasks] == [len(data), len(data)]
    assert await read_all(world.container, T) == data


async def test_a_batch_that_is_repeated_in_the_line_has_the_answer_of_the_first(world):
    await append(world.container, A, b"data")
    tasks = await world.ask_while_the_line_is_held(*2 * [lambda: world.store.merge_batch(T, [A])])
    assert not any(task.done() for task in tasks)
    world.wal.go_on()
    assert [await task for task in tasks] == [[4], [4]]
    assert await read_all(world.container, T) == b"data"


async def test_a_batch_keeps_its_order_though_its_first_source_looks_empty(world):
    await world.container.create("s/b", {})
    await append(world.container, "s/b", b"second")
    target = await world.container.resolve(T)
    give_memory = withhold_memory(world.container)
    appending = asyncio.ensure_future(append(world.container, A, b"first"))
    await until(lambda: queued(world.container) == 1)
    merging = asyncio.ensure_future(world.container.merge_batch(target, [A, "s/b"]))
    await until(lambda: queued(world.container) == 5)
    give_memory()
    assert await appending == 0
    assert await merging == [5, 11]
    assert await read_all(world.container, T) == b"firstsecond"


async def test_an_empty_source_is_merged_with_updates_in_its_turn(world):
    updates = [AttributeUpdate(KEY, UpdateKind.REPLACE, 1)]
    asks = [lambda: world.store.merge_segments(T, A, updates), lambda: world.store.delete_segment(A)]
    merging, deleting = await world.ask_while_the_line_is_held(*asks, operations=3)
    assert not merging.done()
    world.wal.go_on()
    assert await merging == 0
    with pytest.raises(NoSuchSegmentError):
        await deleting
    assert await world.store.get_attribute(T, KEY) == 1


@pytest.mark.parametrize("data", [b"", b"data"])
async def test_a_merge_made_before_the_target_was_sealed_counts_for_who_asks_again(world, data):
    await append(world.container, A, data)
    updates = [AttributeUpdate(KEY, UpdateKind.ACCUMULATE, 1)]
    asks = [
        lambda: world.store.merge_segments(T, A, updates),
        lambda: world.store.seal_segment(T),
        lambda: world.store.merge_segments(T, A, updates),
    ]
    merging, sealing, again = await world.ask_while_the_line_is_held(*asks, operations=5)
    world.wal.go_on()
    assert [await task for task in (merging, sealing, again)] == 3 * [len(data)]
    assert await world.store.get_attribute(T, KEY) == 1


@pytest.mark.parametrize("data", [b"", b"data"])
async def test_a_source_that_was_deleted_is_gone_also_for_a_target_sealed_since(world, data):
    await append(world.container, A, data)
    [deleting] = await world.ask_while_the_log_stands(lambda: world.store.delete_segment(A))
    asks = [lambda: world.store.seal_segment(T), lambda: world.store.merge_segments(T, A)]
    sealing, merging = await world.ask_while_the_line_is_held(*asks, operations=3)
    world.wal.go_on()
    await deleting
    assert await sealing == 0
    with pytest.raises(NoSuchSegmentError) as caught:
        await merging
    assert caught.value.segment == A


async def test_an_empty_source_is_not_merged_if_an_update_is_refused(world):
    updates = [AttributeUpdate(KEY, UpdateKind.REPLACE_IF_EQUALS, 1, 2)]
    with pytest.raises(AttributeMismatchError):
        await world.store.merge_segments(T, A, updates)
    assert (await world.store.segment_info(A)).sealed


async def test_the_names_of_a_batch_of_too_many_sources_are_not_looked_at(world):
    registry = Registry(world.container)
    looked_at = []
    registry.get = lambda name: looked_at.append(name) or world.container
    store = SegmentStore(registry, SeededEntropy(1))
    with pytest.raises(InvalidArgumentError, match="nothing was merged"):
        await store.merge_batch(T, [A] * (segment_merges.MERGE_SOURCES_MAX + 1))
    assert not looked_at
