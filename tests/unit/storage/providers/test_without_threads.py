"""The system gives no thread: long-term storage does not answer, which is nothing to end a container for."""

import asyncio
from dataclasses import replace

import pytest

from headrace.errors import StorageReadError, StorageWriteError
from headrace.runtime import blocking
from headrace.runtime.blocking import SystemThreads
from headrace.runtime.filesystem import OsFilesystem
from headrace.storage.providers.config import ChunkThreadsConfig
from headrace.storage.providers.files.chunk_threads import ChunkThreads
from headrace.storage.providers.files.filesystem import FilesystemChunkProvider
from tests.unit.segmentstore.container.container_bench import Bench, append, read_all, until


@pytest.fixture
def scarce(monkeypatch):
    """No thread can be started until it is called."""
    start = blocking.start_thread

    def refuse(name, target):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(blocking, "start_thread", refuse)
    return lambda: monkeypatch.setattr(blocking, "start_thread", start)


@pytest.fixture
def provider(tmp_path):
    threads = ChunkThreads.start(SystemThreads(), ChunkThreadsConfig())
    yield FilesystemChunkProvider(str(tmp_path), OsFilesystem(), threads)
    threads.close()


async def test_calls_fail_as_their_contract_says(provider, scarce):
    with pytest.raises(StorageWriteError):
        await provider.create("a/c", [b"x"])
    with pytest.raises(StorageWriteError):
        await provider.append("a/c", 0, [b"x"])
    with pytest.raises(StorageWriteError):
        await provider.delete("a/c")
    with pytest.raises(StorageReadError):
        await provider.read("a/c", 0, 1)
    with pytest.raises(StorageReadError):
        await provider.info("a/c")
    with pytest.raises(StorageReadError):
        await anext(aiter(provider.list()))


async def test_a_container_waits_for_threads_and_stores_then(provider, scarce):
    bench = Bench()
    bench.chunks = provider
    bench.config = replace(
        bench.config,
        storage_writer=replace(bench.config.storage_writer, retry_initial_s=0.01, garbage_interval_s=0.01),
    )
    container = await bench.start()
    await container.create("s/a", {})
    await append(container, "s/a", b"acknowledged")
    await until(lambda: bench.failures or container.tiers.writer.statistics().flush_failures > 1)
    await asyncio.sleep(0.05)  # the collector of garbage has asked, too
    assert not bench.failures
    scarce()
    await container.flush_storage()
    assert await read_all(container, "s/a") == b"acknowledged"
    assert not bench.failures
    await bench.stop()
