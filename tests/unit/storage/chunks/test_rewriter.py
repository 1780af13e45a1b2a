"""Chunks that others replace: what is merged, what readers see meanwhile, what is given up."""

import asyncio
from dataclasses import replace

import pytest

from headrace.errors import ChecksumMismatchError, StorageWriteError
from headrace.runtime.entropy import SeededEntropy
from headrace.storage.chunks.config import SegmentStorageConfig
from headrace.storage.chunks.segment_storage import ChunkedSegmentStorage
from headrace.storage.providers.memory import MemoryChunkProvider
from headrace.testing.memory_row_store import MemoryRowStore
from headrace.testing.storage_faults import Fault, FaultyChunkProvider, FaultyRowStore

CONFIG = SegmentStorageConfig(
    rollover_bytes=100, block_bytes=8, garbage_delay_s=0, merge_bytes_max=32, merge_chunks_min=4
)


class HeldRows(FaultyRowStore):
    """Readers see a commit; while ``held`` is set, its caller waits. ``is_late``: it is seen, and made, then
    only, whatever its caller does.
    """

    held: asyncio.Event | None = None
    is_late = False

    def __init__(self, rows):
        super().__init__(rows)
        self.committed = asyncio.Event()

    async def commit(self, changes):
        if self.held is not None and self.is_late:
            self.committed.set()
            await asyncio.shield(asyncio.ensure_future(self._commit_late(changes)))
            return
        await super().commit(changes)
        if self.held is not None:
            self.committed.set()
            await self.held.wait()

    async def _commit_late(self, changes):
        await self.held.wait()
        await super().commit(changes)


class Store:
    def __init__(self, *, supports_append=False):
        self.objects = MemoryChunkProvider(supports_append=supports_append)
        self.provider = FaultyChunkProvider(self.objects)
        self.rows = HeldRows(MemoryRowStore())
        self.owners = 0

    def owner(self, config=CONFIG):
        self.owners += 1
        return ChunkedSegmentStorage(
            self.provider, self.rows, self.owners, SeededEntropy(self.owners), config
        )

    async def with_segment(self, count, size=4):
        """Return an owner of a segment of ``count`` chunks that was just loaded, and its bytes."""
        storage = self.owner()
        content = b""
        for number in range(count):
            await storage.write("s", len(content), [bytes([65 + number]) * size], create=True)
            content += bytes([65 + number]) * size
        return self.owner(), content


async def merge_all(storage, rewriter=None):
    rewriter = rewriter or storage.make_rewriter()
    place = 0
    while not (step := await rewriter.merge_some("s", place)).is_done:
        place = step.place
    return rewriter.statistics


async def read_all(storage):
    info = await storage.info("s")
    return bytes(await storage.read_stored("s", info.start_offset, info.length - info.start_offset))


def lengths_of(storage):
    return [chunk.length for chunk in storage.chunks("s")]


async def test_small_chunks_become_one_and_their_objects_garbage():
    store = Store()
    storage, content = await store.with_segment(16)
    assert await storage.make_rewriter().is_candidate("s")
    statistics = await merge_all(storage)
    assert lengths_of(storage) == [32, 32]
    assert (statistics.rewrites, statistics.chunks_replaced, statistics.bytes_rewritten) == (2, 16, 64)
    assert await read_all(storage) == content
    assert await storage.garbage.collect() == 16
    assert await read_all(storage) == await read_all(store.owner()) == content
    assert len(store.objects.objects) == 2
    assert not await storage.make_rewriter().is_candidate("s")


async def test_the_last_chunk_is_left_where_it_may_grow():
    store = Store(supports_append=True)
    for number in range(5):  # each owner begins a chunk
        await store.owner().write("s", 4 * number, [b"abcd"], create=True)
    storage = store.owner()
    await merge_all(storage)
    assert lengths_of(storage) == [16, 4]


async def test_a_sealed_segment_is_merged_to_its_end_once_and_for_all():
    store = Store(supports_append=True)
    for number in range(3):
        await store.owner().write("s", 4 * number, [b"abcd"], create=True)
    storage = store.owner()
    await merge_all(storage)
    assert lengths_of(storage) == [4, 4, 4]
    await storage.seal("s")
    await merge_all(storage)
    assert lengths_of(storage) == [12]


async def test_a_reader_that_follows_links_while_they_change_waits_for_the_new_layout():
    store = Store()
    storage, content = await store.with_segment(24)
    store.rows.held = asyncio.Event()
    merging = asyncio.ensure_future(storage.make_rewriter().merge_some("s", 0))
    await store.rows.committed.wait()
    known = await storage.read_stored("s", 5, 9)
    reading = asyncio.ensure_future(storage.read_stored("s", 60, 30))
    for _ in range(50):
        await asyncio.sleep(0)
    assert not reading.done()
    store.rows.held.set()
    assert (known, await reading) == (content[5:14], content[60:90])
    assert not (await merging).is_done


async def test_who_writes_behind_a_rewrite_that_is_stopped_writes_behind_what_it_made():
    store = Store()
    storage, content = await store.with_segment(8)
    store.rows.held = asyncio.Event()
    store.rows.is_late = True
    merging = asyncio.ensure_future(storage.make_rewriter().merge_some("s", 0))
    await store.rows.committed.wait()
    merging.cancel()
    writing = asyncio.ensure_future(storage.write("s", len(content), [b"more"]))
    for _ in range(50):
        await asyncio.sleep(0)
    store.rows.held.set()
    await writing
    with pytest.raises(asyncio.CancelledError):
        await merging
    assert lengths_of(storage) == lengths_of(store.owner()) == [32, 4]
    assert await read_all(store.owner()) == content + b"more"


async def test_a_segment_that_was_truncated_meanwhile_stays_as_it_is_then():
    store = Store()
    storage, content = await store.with_segment(8)
    rewriter = storage.make_rewriter()
    reading = asyncio.Event()
    store.provider.delay_s = lambda _: 0.01
    store.provider.on_read = lambda _: reading.set()
    merging = asyncio.ensure_future(rewriter.merge_some("s", 0))
    await reading.wait()
    await storage.truncate("s", 10)
    await merging
    assert rewriter.statistics.given_up == 1
    assert lengths_of(storage) == [4] * 6
    while await storage.garbage.collect():
        pass
    assert len(store.objects.objects) == 6
    assert await read_all(storage) == content[10:]


@pytest.mark.parametrize("fault", [Fault.FAIL, Fault.LOSE_REPLY, Fault.TEAR])
async def test_an_object_of_unknown_outcome_is_never_named(fault):
    store = Store()
    storage, content = await store.with_segment(8)
    store.provider.inject = lambda _: fault
    with pytest.raises(StorageWriteError):
        await merge_all(storage)
    store.provider.inject = lambda _: None
    await merge_all(storage)
    while await storage.garbage.collect():
        pass
    assert (len(store.objects.objects), await read_all(storage)) == (1, content)


async def test_damage_is_never_copied():
    store = Store()
    storage, _ = await store.with_segment(8)
    name = storage.chunks("s")[3].name
    store.objects.objects[name][1] ^= 1
    with pytest.raises(ChecksumMismatchError):
        await merge_all(storage)
    assert lengths_of(storage) == [4] * 8
    assert len(store.objects.objects) == 8


async def test_truncated_bytes_leave_the_objects_of_a_segment_that_goes_on_growing():
    store = Store(supports_append=True)
    storage = store.owner()
    await storage.write("s", 0, [b"secret" * 5 + b"public" * 5], create=True)
    await storage.truncate("s", 30)
    rewriter = storage.make_rewriter()
    assert await rewriter.drop_truncated("s")
    assert not await rewriter.drop_truncated("s")
    await storage.write("s", 60, [b"more"])
    while await storage.garbage.collect():
        pass
    assert b"secret" not in b"".join(store.objects.objects.values())
    assert await read_all(storage) == b"public" * 5 + b"more"
    assert [chunk.start_offset for chunk in storage.chunks("s")] == [30]


async def test_a_first_chunk_that_is_mostly_truncated_is_rewritten():
    config = SegmentStorageConfig(rollover_bytes=4 << 20, garbage_delay_s=0)
    store = Store()
    storage = store.owner(config)
    await storage.write("s", 0, [bytes(2 << 20)], create=True)
    await storage.write("s", 2 << 20, [b"end"])
    await storage.truncate("s", (2 << 20) - 5)
    statistics = await merge_all(storage)
    assert statistics.bytes_given_back == (2 << 20) - 5
    assert lengths_of(storage) == [5, 3]


class HeldCreates(FaultyChunkProvider):
    """Says when an object was made; from the ``number``-th on its caller waits until ``released``."""

    def __init__(self, provider, number):
        super().__init__(provider)
        self.number = number
        self.made, self.released = asyncio.Event(), asyncio.Event()

    async def create(self, name, buffers=(), beside=None):
        await super().create(name, buffers, beside)
        self.number -= 1
        if self.number <= 0:
            self.made.set()
            await self.released.wait()


async def test_an_owner_that_ends_while_a_truncation_passes_the_chunks_it_makes_is_followed():
    store = Store()
    content = bytes(range(100))
    await store.owner().write("s", 0, [content], create=True)
    store.provider = held = HeldCreates(store.objects, 4)
    storage = store.owner()
    await storage.truncate("s", 10)
    await storage.write("other", 0, [b"x"], create=True)
    await storage.delete("other")
    dropping = asyncio.ensure_future(storage.make_rewriter().drop_truncated("s"))
    await held.made.wait()
    await storage.truncate("s", 95)
    store.rows.held = asyncio.Event()
    held.released.set()
    await store.rows.committed.wait()
    dropping.cancel()
    store.rows.held = None
    storage = store.owner()
    assert len(storage.chunks("s")) == 3
    assert await storage.make_rewriter().drop_truncated("s")
    assert [(chunk.start_offset, chunk.length) for chunk in storage.chunks("s")] == [(95, 5)]
    assert await read_all(storage) == await read_all(store.owner()) == content[95:]


async def test_no_copy_that_a_rewrite_has_begun_outlives_a_deletion_of_all_garbage():
    store = Store()
    await store.with_segment(8)
    store.provider = held = HeldCreates(store.objects, 1)
    storage = store.owner(replace(CONFIG, leftovers_pause_s=0))
    merging = asyncio.ensure_future(storage.make_rewriter().merge_some("s", 0))
    await held.made.wait()
    await storage.truncate("s", 30)
    deleting = asyncio.ensure_future(storage.garbage.purge(storage.garbage.next_number))
    for _ in range(500):
        await asyncio.sleep(0)
    held.released.set()
    await deleting
    assert [len(found) for found in store.objects.objects.values()] == [4]
    await merging
