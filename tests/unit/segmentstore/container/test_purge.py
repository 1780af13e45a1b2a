"""What a purge of a container comes to: the log is cut, objects are rewritten and gone, failures are said."""

import dataclasses

import pytest

from headrace.errors import ContainerOfflineError, StorageWriteError
from headrace.storage.checkpoints.manifest import SystemFacts
from headrace.storage.providers.memory import MemoryChunkProvider
from headrace.testing.storage_faults import Fault, FaultyChunkProvider
from tests.unit.segmentstore.container.container_bench import Bench, append, read_all

SECRET, PUBLIC = b"secret" * 50, b"public" * 50


class PurgeBench(Bench):
    def __init__(self, *, supports_append=True):
        super().__init__()
        self.objects = MemoryChunkProvider(supports_append=supports_append)
        self.chunks = FaultyChunkProvider(self.objects)
        storage = dataclasses.replace(self.config.storage, garbage_delay_s=1e6)
        self.config = dataclasses.replace(self.config, storage=storage)

    async def fill(self, name="s/t"):
        segment = await self.container.create(name, {})
        await append(self.container, name, SECRET)
        await append(self.container, name, PUBLIC)
        await self.container.flush_storage()
        return segment

    def holds(self, marker):
        """Whether an object has it, or the log."""
        records = b"".join(bytes(content) for *_, content in self.logs.get_log("c0").records)
        return [marker in b"".join(bytes(each) for each in self.objects.objects.values()), marker in records]


@pytest.fixture(params=[True, False], ids=["appends", "no appends"])
async def bench(request):
    bench = PurgeBench(supports_append=request.param)
    await bench.start()
    yield bench
    assert bench.failures == []
    await bench.stop()


async def test_truncated_bytes_are_in_no_tier_and_the_others_are_read_as_before(bench):
    segment = await bench.fill()
    await bench.container.truncate(segment, len(SECRET))
    assert any(bench.holds(b"secret"))
    await bench.container.purge(["s/t", "s/gone"])
    assert bench.holds(b"secret") == [False, False]
    await append(bench.container, "s/t", PUBLIC)
    assert await read_all(bench.container, "s/t") == 2 * PUBLIC
    await bench.start()
    assert await read_all(bench.container, "s/t") == 2 * PUBLIC


async def test_a_deleted_segment_is_gone_at_once(bench):
    segment = await bench.fill()
    await bench.container.delete(segment)
    await bench.container.purge([])
    assert bench.holds(b"secret") == [False, False]


async def test_copies_of_the_log_are_renewed(bench):
    bench.system = SystemFacts(1)
    await bench.start()
    segment = await bench.fill()
    await bench.container.tiers.checkpoints.write_now()
    await append(bench.container, "s/t", SECRET)
    await bench.container.tiers.checkpoints.write_now()
    await bench.container.truncate(segment, len(SECRET + PUBLIC + SECRET))
    await append(bench.container, "s/t", PUBLIC)
    await bench.container.purge(["s/t"])
    assert bench.holds(b"secret") == [False, False]
    assert await read_all(bench.container, "s/t") == PUBLIC


async def test_an_object_that_cannot_be_deleted_fails_the_purge_which_may_be_repeated(bench):
    segment = await bench.fill()
    await bench.container.truncate(segment, len(SECRET))
    bench.chunks.inject = lambda call: Fault.FAIL if call.kind == "delete" else None
    with pytest.raises(StorageWriteError):
        await bench.container.purge(["s/t"])
    bench.chunks.inject = lambda _: None
    await bench.container.purge(["s/t"])
    assert bench.holds(b"secret") == [False, False]


async def test_a_container_that_stops_refuses(bench):
    await bench.fill()
    stopped = bench.container
    await bench.start()
    with pytest.raises(ContainerOfflineError):
        await stopped.purge(["s/t"])
