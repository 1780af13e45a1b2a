"""Sources that are targets themselves, and merges that are undone or repeated under the storage writer."""

import asyncio

import pytest

from headrace.errors import StorageWriteError
from headrace.storage.providers.memory import MemoryChunkProvider
from tests.unit.segmentstore.container.container_bench import Bench, append, read_all, until

PATIENCE_S = 120


@pytest.fixture
async def bench():
    bench = Bench()
    yield bench
    await bench.stop()


async def make_chain(container, depth, size):
    for number in range(depth + 1):
        await container.create(f"s/{number}", {})
        await append(container, f"s/{number}", bytes([number]) * size)
    for number in range(depth):
        await container.merge(await container.resolve(f"s/{number + 1}"), f"s/{number}")
    return b"".join(bytes([number]) * size for number in reversed(range(depth + 1)))


@pytest.mark.slow
@pytest.mark.parametrize("depth", [2, 3, 6])
@pytest.mark.parametrize("size", [10, 40_000])
async def test_a_chain_of_merges_that_storage_has_done_lets_the_log_be_cut_after_a_crash(bench, depth, size):
    container = await bench.start()
    content = await make_chain(container, depth, size)
    async with asyncio.timeout(PATIENCE_S):
        await container.flush_storage()
        container = await bench.start()
        await container.flush_storage()
        taken = container.state.sequence
        await container.log.write_checkpoint()
        await until(lambda: container.log.truncated_sequence > taken and not container.state.retired)
    assert await read_all(container, f"s/{depth}") == content
    assert not bench.failures


class Away(MemoryChunkProvider):
    is_away = True

    async def create(self, *args, **options):
        if self.is_away:
            raise StorageWriteError("away")
        return await super().create(*args, **options)


@pytest.mark.slow
@pytest.mark.parametrize("depth", [7, 8, 9, 50])
async def test_all_of_a_chain_is_read_from_the_cache_while_storage_is_away(bench, depth):
    bench.chunks = Away()
    container = await bench.start()
    content = await make_chain(container, depth, 20_000)
    async with asyncio.timeout(PATIENCE_S):
        assert await read_all(container, f"s/{depth}") == content
        bench.chunks.is_away = False
        await container.flush_storage()
        assert await read_all(container, f"s/{depth}") == content


class Held(MemoryChunkProvider):
    """The first creation of an object of the target waits, and fails."""

    def __init__(self):
        super().__init__()
        self.is_reached, self.may_fail = asyncio.Event(), asyncio.Event()

    async def create(self, name, *args, **options):
        if name.startswith("c0/s/target") and not self.may_fail.is_set():
            self.is_reached.set()
            await self.may_fail.wait()
            raise StorageWriteError("injected")
        return await super().create(name, *args, **options)


async def test_the_source_of_a_target_that_was_deleted_under_a_failing_write_is_let_go(bench):
    bench.chunks = Held()
    container = await bench.start()
    for name in ("s/target", "s/source", "s/other"):
        await container.create(name, {})
    target = await container.resolve("s/target")
    async with asyncio.timeout(PATIENCE_S):
        await asyncio.gather(
            append(container, "s/source", b"source"),
            append(container, "s/target", b"target"),
            container.merge(target, "s/source"),
        )
        await bench.chunks.is_reached.wait()
        await container.delete(target)
        taken = container.state.sequence
        await until(lambda: container.tiers.writer._acknowledgements.taken >= taken)
        bench.chunks.may_fail.set()
        await append(container, "s/other", b"more")
        await container.log.write_checkpoint()
        await until(lambda: not container.state.retired and container.log.truncated_sequence > taken)
