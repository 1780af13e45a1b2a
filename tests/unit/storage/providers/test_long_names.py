"""Chunks of long names: a part is cut into directories, and what is left of it may begin with anything."""

import pytest

from headrace.model.names import check_user_name, segment_name
from headrace.runtime.blocking import BlockingPool
from headrace.runtime.entropy import SeededEntropy
from headrace.runtime.filesystem import OsFilesystem
from headrace.storage.chunks.config import SegmentStorageConfig
from headrace.storage.chunks.segment_storage import ChunkedSegmentStorage
from headrace.storage.providers.files.chunk_threads import ChunkThreads
from headrace.storage.providers.files.filesystem import FilesystemChunkProvider
from headrace.testing.memory_row_store import MemoryRowStore

CONFIG = SegmentStorageConfig(garbage_delay_s=0)


@pytest.fixture
def provider(tmp_path):
    pool = BlockingPool(2, "t")
    yield FilesystemChunkProvider(str(tmp_path), OsFilesystem(), ChunkThreads.shared(pool))
    pool.close()


@pytest.mark.parametrize("rest", ["..", ".", ".x", "-x", ""])
async def test_the_next_owner_keeps_the_chunks_of_a_legal_name(provider, tmp_path, rest):
    """They lay under the path of another name, which no row knows: a leftover, and deleted."""
    stream = check_user_name("a" * 200 + rest, "stream")
    name = segment_name("scope", stream, 0) + ".5"  # as storage knows it
    rows = MemoryRowStore()
    old = ChunkedSegmentStorage(provider, rows, 1, SeededEntropy(1), CONFIG)
    await old.write(name, 0, [b"acknowledged"], create=True)
    assert [info.name async for page in provider.list() for info in page] == [old.chunks(name)[0].name]
    new = ChunkedSegmentStorage(provider, rows, 2, SeededEntropy(2), CONFIG)
    assert await new.garbage.collect_orphans() == 0
    assert bytes(await new.read_stored(name, 0, 12)) == b"acknowledged"
