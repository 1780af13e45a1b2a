"""A create that was given up while a thread had it, and happens after its object was deleted."""

import asyncio
import os
import threading

import pytest

from headrace.errors import StorageWriteError
from headrace.runtime.blocking import BlockingPool
from headrace.runtime.entropy import SeededEntropy
from headrace.runtime.filesystem import OsFilesystem
from headrace.storage.chunks.config import SegmentStorageConfig
from headrace.storage.chunks.segment_storage import ChunkedSegmentStorage
from headrace.storage.providers.files.chunk_threads import ChunkThreads
from headrace.storage.providers.files.filesystem import FilesystemChunkProvider
from headrace.testing.memory_row_store import MemoryRowStore


class Hanging(OsFilesystem):
    """Does not answer the opening of a new file until ``goes_on`` is set."""

    __slots__ = ("goes_on",)

    def open(self, path, flags, mode=0o644):
        if flags & os.O_CREAT:
            self.goes_on.wait(120)
        return super().open(path, flags, mode)


async def test_the_object_of_a_create_that_was_given_up_does_not_stay(tmp_path):
    files = Hanging()
    files.goes_on = threading.Event()
    writes, others = BlockingPool(1, "w"), BlockingPool(1, "o")
    provider = FilesystemChunkProvider(str(tmp_path), files, ChunkThreads(writes, others, others))
    config = SegmentStorageConfig(garbage_delay_s=0, garbage_retry_s=0, provider_timeout_s=0.05)
    storage = ChunkedSegmentStorage(provider, MemoryRowStore(), 1, SeededEntropy(1), config)
    with pytest.raises(StorageWriteError):
        await storage.write("s/t.5", 0, [b"x" * 1000], create=True)
    await storage.garbage.collect()
    files.goes_on.set()
    async with asyncio.timeout(120):
        while writes.statistics().pending:  # noqa: ASYNC110 - the caller has left: nobody is told
            await asyncio.sleep(0)
    await storage.garbage.collect()
    left = [found.name async for page in provider.list() for found in page]
    writes.close()
    others.close()
    assert not left, "only another owner would find it"
