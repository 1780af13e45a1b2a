"""Copies of the log beside the chunks: when they are written, what they hold, whom they fence."""

import asyncio
import dataclasses

import pytest

from headrace.errors import FencedOutError, StorageReadError, StorageWriteError
from headrace.limits import KIB
from headrace.storage.checkpoints.checkpoint_store import CheckpointStore
from headrace.storage.checkpoints.config import StorageCheckpointsConfig
from headrace.storage.checkpoints.listed import finished
from headrace.storage.checkpoints.manifest import SystemFacts
from headrace.storage.checkpoints.object_names import CHECKPOINTS_PREFIX, EPOCH_STEP, CheckpointId
from headrace.storage.providers.memory import MemoryChunkProvider
from headrace.wal.memory import MemoryWal
from tests.unit.segmentstore.container.container_bench import Bench, append, read_all, until


class Copied(Bench):
    """Containers that write storage checkpoints."""

    def __init__(self, **settings):
        super().__init__()
        checkpoints = StorageCheckpointsConfig(
            **{"look_s": 0.01, "pause_s": 0.01, "interval_s": 1e6, "truncation_wait_s": 0.2} | settings
        )
        writer = dataclasses.replace(self.config.storage_writer, stop_flush_s=20.0, garbage_interval_s=0.05)
        storage = dataclasses.replace(self.config.storage, garbage_delay_s=0.0, rollover_bytes=64 * KIB)
        self.config = dataclasses.replace(
            self.config, storage_checkpoints=checkpoints, storage_writer=writer, storage=storage
        )
        self.system = SystemFacts(4, "an-id")

    @property
    def checkpoints(self):
        return self.container.tiers.checkpoints

    @property
    def store(self):
        return CheckpointStore(self.chunks, 0, 10.0)

    async def ids(self):
        return finished(await self.store.look())

    async def newest(self):
        listed = await self.store.look()
        newest = finished(listed)[-1]
        return await self.store.read_manifest(newest, listed[newest])

    async def records(self):
        return [
            bytes(record) async for part in self.store.read_records(await self.newest()) for record in part
        ]

    def logged(self):
        return [content for *_, content in self.logs.get_log("c0").records]

    def chunk_count(self):
        return sum("s/" in name for name in self.chunks.objects)


async def test_a_new_container_is_copied_at_once_and_then_only_if_something_changed():
    bench = Copied(interval_s=0.5)
    container = await bench.start()
    await until(lambda: bench.checkpoints.statistics().written == 1)
    await asyncio.sleep(5)
    assert bench.checkpoints.statistics().written == 1
    await container.create("s/a", {})
    await append(container, "s/a", b"x")
    await until(lambda: bench.checkpoints.statistics().written == 2)
    await bench.stop()


async def test_a_clean_stop_leaves_a_copy_of_the_log_that_it_leaves():
    bench = Copied()
    container = await bench.start()
    await container.create("s/a", {})
    await append(container, "s/a", bytes(10 * KIB))
    await bench.stop()
    assert await bench.records() == bench.logged()
    manifest = await bench.newest()
    assert (manifest.container, manifest.containers, manifest.system) == (0, 4, "an-id")
    assert manifest.checkpoint.epoch == 1
    assert manifest.sequence == container.state.sequence
    assert manifest.incarnation in next(name for name in bench.chunks.objects if "s/a" in name)


async def test_a_container_that_is_started_and_stopped_writes_no_further_copy():
    bench = Copied()
    await bench.start()
    await bench.container.create("s/a", {})
    await bench.stop()
    ids = await bench.ids()
    bench.container = None
    await bench.start()
    await asyncio.sleep(1)
    await bench.stop()
    assert await bench.ids() == ids


async def test_copies_of_a_log_under_load_are_prefixes_of_it_and_two_are_retained():
    bench = Copied(interval_s=0.02)
    container = await bench.start()
    await container.create("s/a", {})
    for number in range(200):
        await append(container, "s/a", bytes([number]) * KIB)
        await asyncio.sleep(0.002)
    await until(lambda: bench.checkpoints.statistics().written >= 5)
    assert len(await bench.ids()) in {2, 3}
    await bench.stop()
    assert len(await bench.ids()) == 2
    assert await bench.records() == bench.logged()


async def test_after_so_many_chunks_one_is_due():
    bench = Copied(chunks=5)
    container = await bench.start()
    await container.create("s/a", {})
    await until(lambda: bench.checkpoints.statistics().written == 1)
    for _ in range(12):
        await append(container, "s/a", bytes(64 * KIB))
        await container.flush_storage()
        await asyncio.sleep(0.1)
    await until(lambda: bench.checkpoints.statistics().written >= 3)
    await bench.stop()


async def test_what_a_retained_copy_names_is_not_deleted_and_what_none_names_is():
    bench = Copied()
    container = await bench.start()
    segment = await container.create("s/a", {})
    for _ in range(4):
        await append(container, "s/a", bytes(64 * KIB))
        await container.flush_storage()
    await bench.checkpoints.write_now()
    stored = bench.chunk_count()
    assert stored >= 4
    await container.truncate(segment, segment.durable_length - 1)
    await container.flush_storage()
    await asyncio.sleep(5)
    assert bench.chunk_count() == stored
    await bench.checkpoints.write_now()
    await asyncio.sleep(5)
    assert bench.chunk_count() == stored, "the copy before the last one names them"
    await bench.checkpoints.write_now()
    await until(lambda: bench.chunk_count() < stored)
    await bench.stop()


async def test_a_successor_holds_what_the_copies_of_former_owners_name():
    bench = Copied()
    container = await bench.start()
    segment = await container.create("s/a", {})
    for _ in range(4):
        await append(container, "s/a", bytes(64 * KIB))
        await container.flush_storage()
    await bench.checkpoints.renew()
    stored = bench.chunk_count()
    await container.truncate(segment, segment.durable_length - 1)
    await container.flush_storage()
    await bench.start()
    await asyncio.sleep(5)
    assert bench.chunk_count() == stored
    await bench.checkpoints.renew()
    await until(lambda: bench.chunk_count() < stored)
    await bench.stop()


@pytest.mark.slow
async def test_what_was_deleted_last_is_gone_from_a_container_that_is_idle_since():
    bench = Copied(interval_s=0.5)
    container = await bench.start()
    segment = await container.create("s/a", {})
    for _ in range(4):
        await append(container, "s/a", bytes(64 * KIB))
        await container.flush_storage()
    await bench.checkpoints.renew()
    await container.delete(segment)
    await container.flush_storage()
    async with asyncio.timeout(60):
        await until(lambda: not any(name.startswith("c0/s/a.") for name in bench.chunks.objects))
    await asyncio.sleep(5)  # the last copies are of what deleting the rows has changed
    written = bench.checkpoints.statistics().written
    await asyncio.sleep(5)
    assert bench.checkpoints.statistics().written == written
    await bench.stop()


async def test_an_owner_ends_when_its_system_was_rebuilt():
    bench = Copied()
    container = await bench.start()
    await container.create("s/a", {})
    await bench.checkpoints.write_now()
    await rebuilt(bench, 1 << 24)
    await append(container, "s/a", b"more")
    with pytest.raises(FencedOutError, match="was rebuilt from this storage"):
        await bench.checkpoints.write_now()
    await until(lambda: bench.failures)
    assert isinstance(bench.failures[0], FencedOutError)
    await bench.stopping
    bench.container = None
    with pytest.raises(FencedOutError, match="was rebuilt"):
        await bench.start()


async def test_an_owner_that_writes_nothing_ends_as_well():
    bench = Copied(fence_s=0.2)
    await bench.start()
    await bench.checkpoints.write_now()
    await rebuilt(bench, 1 << 24)
    await until(lambda: bench.failures)
    assert isinstance(bench.failures[0], FencedOutError)
    await bench.stopping


@pytest.mark.slow
async def test_an_idle_owner_ends_within_the_minute_that_users_are_promised():
    bench = Copied(fence_s=StorageCheckpointsConfig().fence_s, pause_s=StorageCheckpointsConfig().pause_s)
    await bench.start()
    await until(lambda: bench.checkpoints.statistics().written == 1)
    await rebuilt(bench, 1 << 24)
    await asyncio.sleep(60)  # of virtual time, in one step: until() would look sixty thousand times
    assert isinstance(bench.failures[0], FencedOutError)
    await bench.stopping


async def test_an_owner_whose_copy_waits_for_a_store_that_takes_nothing_ends_as_well():
    bench = Copied(fence_s=0.2, interval_s=0.1)
    container = await bench.start()
    await until(lambda: bench.checkpoints.statistics().written == 1)
    create, waits = bench.chunks.create, asyncio.Event()

    async def wait_for_ever(*_):
        waits.set()
        await asyncio.Event().wait()

    bench.chunks.create = wait_for_ever
    await container.create("s/a", {})
    await append(container, "s/a", b"x")
    await waits.wait()
    bench.chunks.create = create
    await rebuilt(bench, 1 << 24)
    await until(lambda: bench.failures)
    assert isinstance(bench.failures[0], FencedOutError)
    await bench.stopping


async def test_an_idle_owner_whose_log_was_taken_ends():
    bench = Copied(fence_s=0.2)
    await bench.start()
    await until(lambda: bench.checkpoints.statistics().written == 1)
    successor = MemoryWal(bench.logs, "c0")
    await successor.open()
    await until(lambda: bench.failures)
    assert isinstance(bench.failures[0], FencedOutError)
    await bench.stopping


async def rebuilt(bench, epoch):
    manifest = dataclasses.replace(
        await bench.newest(), checkpoint=CheckpointId(epoch, 0), parts=[], records=0
    )
    await bench.store.finish(manifest)


async def test_a_store_that_fails_ends_nobody_and_the_copy_is_made_later():
    bench = Copied()

    async def fail(*_):
        raise StorageWriteError("storage is away")

    create, bench.chunks.create = bench.chunks.create, fail
    container = await bench.start()
    await container.create("s/a", {})
    await append(container, "s/a", b"x")
    await until(lambda: bench.checkpoints.statistics().failures >= 2)
    bench.chunks.create = create
    await until(lambda: bench.checkpoints.statistics().written)
    assert container.online
    await bench.stop()
    assert await bench.records() == bench.logged()


@pytest.mark.slow
async def test_an_owner_starts_although_nothing_can_be_listed_and_deletes_nothing_meanwhile():
    bench = Copied()
    container = await bench.start()
    segment = await container.create("s/a", {})
    for _ in range(4):
        await append(container, "s/a", bytes(64 * KIB))
        await container.flush_storage()
    await bench.checkpoints.renew()
    stored = bench.chunk_count()
    await container.truncate(segment, segment.durable_length - 1)
    await container.flush_storage()
    listing = bench.chunks.list

    async def fail(prefix=""):
        raise StorageReadError("storage is away")
        yield

    bench.chunks.list = fail
    await bench.start()
    await asyncio.sleep(5)
    assert bench.chunk_count() == stored
    bench.chunks.list = listing
    await bench.checkpoints.renew()
    await until(lambda: bench.chunk_count() < stored)
    await bench.stop()


async def test_without_them_the_copies_of_former_owners_are_removed():
    bench = Copied()
    await bench.start()
    await bench.container.create("s/a", {})
    await bench.stop()
    assert await bench.ids()
    bench.container = None
    bench.config = dataclasses.replace(
        bench.config, storage_checkpoints=StorageCheckpointsConfig(interval_s=0.0, look_s=0.01)
    )
    await bench.start()
    assert await bench.ids() == []
    await bench.stop()
    assert await bench.ids() == []


async def test_without_them_owners_of_a_former_system_are_fenced_all_the_same():
    bench, former = Copied(), Copied()
    bench.logs.get_log("c0").epoch = EPOCH_STEP
    former.chunks = bench.chunks
    await bench.start()
    await bench.container.create("s/a", {})
    await bench.stop()
    copies = bench.config
    bench.config = dataclasses.replace(
        copies, storage_checkpoints=StorageCheckpointsConfig(interval_s=0.0, look_s=0.01)
    )
    bench.container = None
    await bench.start()
    await bench.stop()
    assert len([name for name in bench.chunks.objects if name.startswith(CHECKPOINTS_PREFIX)]) == 1
    with pytest.raises(FencedOutError, match="was rebuilt"):
        await former.start()
    bench.config, bench.container = copies, None
    await bench.start()
    await until(lambda: bench.checkpoints.statistics().written)
    await bench.stop()
    assert await bench.records() == bench.logged()


async def test_an_older_log_that_was_put_back_is_told_from_a_rebuilt_system():
    bench, older = Copied(), Copied()
    older.chunks = bench.chunks
    for _ in range(2):
        await bench.start()
        await bench.container.create(f"s/{bench.container.state.epoch}", {})
        await bench.stop()
        bench.container = None
    with pytest.raises(FencedOutError, match="an older log was put back"):
        await older.start()


async def test_a_damaged_copy_is_removed_by_the_next_owner():
    bench = Copied()
    await bench.start()
    await bench.container.create("s/a", {})
    await bench.stop()
    name = next(name for name in bench.chunks.objects if name.endswith(".manifest"))
    bench.chunks.objects[name][60] ^= 1
    bench.container = None
    await bench.start()
    assert name not in bench.chunks.objects
    await bench.stop()


async def test_stores_without_append_have_copies_too():
    bench = Copied()
    bench.chunks = MemoryChunkProvider(supports_append=False)
    container = await bench.start()
    await container.create("s/a", {})
    await append(container, "s/a", b"x")
    await bench.stop()
    assert await bench.records() == bench.logged()
    bench.container = None
    container = await bench.start()
    assert await read_all(container, "s/a") == b"x"
    await bench.stop()
