"""A pipe in place of a chunk file: whoever opens it without further ado waits for the other end for ever."""

import asyncio
import os
from functools import partial

import pytest

from headrace.errors import StorageReadError, StorageWriteError
from headrace.runtime.blocking import BlockingPool
from headrace.runtime.entropy import SeededEntropy
from headrace.runtime.filesystem import OsFilesystem
from headrace.storage.chunks.config import SegmentStorageConfig
from headrace.storage.chunks.segment_storage import ChunkedSegmentStorage
from headrace.storage.providers.files.chunk_files import drop_from_cache
from headrace.storage.providers.files.chunk_paths import encode_chunk_path
from headrace.storage.providers.files.chunk_threads import ChunkThreads
from headrace.storage.providers.files.filesystem import FilesystemChunkProvider
from headrace.storage.providers.files.written_window import StaleRange
from headrace.testing.memory_row_store import MemoryRowStore

LIMIT_S = 120


class World:
    def __init__(self, root):
        self.root = root
        self.files = OsFilesystem()
        self.pool = BlockingPool(1, "t")
        self.provider = FilesystemChunkProvider(str(root), self.files, ChunkThreads.shared(self.pool))
        self.rows = MemoryRowStore()
        self.pipes = []

    def owner(self, epoch, **config):
        settings = SegmentStorageConfig(**config)
        return ChunkedSegmentStorage(self.provider, self.rows, epoch, SeededEntropy(epoch), settings)

    def put_a_pipe(self, name):
        path = self.root / encode_chunk_path(name)
        path.unlink()
        os.mkfifo(path)
        self.pipes.append(path)
        return path

    async def close(self):
        for path in self.pipes:  # or a thread that hangs would not end
            if path.exists():
                os.close(os.open(path, os.O_RDWR | os.O_NONBLOCK))
        await self.provider.close()
        self.pool.close()


@pytest.fixture
async def world(tmp_path):
    world = World(tmp_path)
    yield world
    await world.close()


async def test_a_read_of_a_chunk_that_is_a_pipe_fails_and_the_next_read_has_a_thread(world):
    storage = world.owner(1)
    await storage.write("s", 0, [b"acknowledged"], create=True)
    await storage.write("other", 0, [b"unharmed"], create=True)
    world.put_a_pipe(storage.chunks("s")[0].name)
    async with asyncio.timeout(LIMIT_S):
        with pytest.raises(StorageReadError, match=r"Illegal seek|seek"):
            await storage.read_stored("s", 0, 12)
        assert bytes(await storage.read_stored("other", 0, 8)) == b"unharmed"


@pytest.mark.parametrize("is_read", [False, True])
async def test_an_append_to_a_chunk_that_is_a_pipe_fails_and_the_next_goes_into_a_new_one(world, is_read):
    storage = world.owner(1)
    await storage.write("s", 0, [b"acknowledged"], create=True)
    name = storage.chunks("s")[0].name
    path = world.put_a_pipe(name)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK) if is_read else -1
    async with asyncio.timeout(LIMIT_S):
        if not is_read:  # else it looks like a file that lost its bytes
            with pytest.raises(StorageWriteError):
                await storage.write("s", 12, [b" too"])
        await storage.write("s", 12, [b" too"])
        assert bytes(await storage.read_stored("s", 12, 4)) == b" too"
    if is_read:
        assert os.read(reader, 100) == b""  # nothing went into the pipe
        os.close(reader)


async def test_a_pipe_is_deleted_like_a_file(world):
    storage = world.owner(1, garbage_delay_s=0)
    await storage.write("s", 0, [b"acknowledged"], create=True)
    path = world.put_a_pipe(storage.chunks("s")[0].name)
    await storage.delete("s")
    async with asyncio.timeout(LIMIT_S):
        assert await storage.garbage.collect() == 1
    assert not path.exists()


async def test_pages_of_a_pipe_are_dropped_at_once(world):
    storage = world.owner(1)
    await storage.write("s", 0, [b"acknowledged"], create=True)
    name = storage.chunks("s")[0].name
    world.put_a_pipe(name)
    stale = [StaleRange(name, 0, 4096)]
    async with asyncio.timeout(LIMIT_S):
        assert await world.pool.run(partial(drop_from_cache, world.files, str(world.root), stale)) == 0
