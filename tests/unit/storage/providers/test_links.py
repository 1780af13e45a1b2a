"""Symbolic links below the directory of the chunks: one object under two names is no leftover."""

import pytest

from headrace.runtime.blocking import BlockingPool
from headrace.runtime.entropy import SeededEntropy
from headrace.runtime.filesystem import OsFilesystem
from headrace.storage.chunks.config import SegmentStorageConfig
from headrace.storage.chunks.segment_storage import ChunkedSegmentStorage
from headrace.storage.providers.files.chunk_threads import ChunkThreads
from headrace.storage.providers.files.filesystem import FilesystemChunkProvider
from headrace.testing.memory_row_store import MemoryRowStore

CONFIG = SegmentStorageConfig(garbage_delay_s=0)
NAME = "scope/stream/0.#epoch.0.5"


@pytest.fixture
def provider(tmp_path):
    pool = BlockingPool(2, "t")
    yield FilesystemChunkProvider(str(tmp_path), OsFilesystem(), ChunkThreads.shared(pool))
    pool.close()


@pytest.mark.parametrize(
    ("link", "leads_to"), [("c0/old-scope", "scope"), ("c0/scope/old-stream", "stream"), ("all", ".")]
)
async def test_what_is_reached_through_a_link_is_not_deleted(provider, tmp_path, link, leads_to):
    rows = MemoryRowStore()
    old = ChunkedSegmentStorage(provider, rows, 1, SeededEntropy(1), CONFIG)
    await old.write(NAME, 0, [b"acknowledged"], create=True)
    (tmp_path / link).symlink_to(leads_to)
    new = ChunkedSegmentStorage(provider, rows, 2, SeededEntropy(2), CONFIG)
    assert await new.garbage.collect_orphans() == 0
    assert bytes(await new.read_stored(NAME, 0, 12)) == b"acknowledged"


async def test_a_directory_that_was_moved_elsewhere_is_used_through_its_link(provider, tmp_path):
    rows = MemoryRowStore()
    old = ChunkedSegmentStorage(provider, rows, 1, SeededEntropy(1), CONFIG)
    await old.write(NAME, 0, [b"acknowledged"], create=True)
    elsewhere = tmp_path.parent / f"{tmp_path.name}-elsewhere"
    (tmp_path / "c0" / "scope").rename(elsewhere)
    (tmp_path / "c0" / "scope").symlink_to(elsewhere)
    new = ChunkedSegmentStorage(provider, rows, 2, SeededEntropy(2), CONFIG)
    assert await new.garbage.collect_orphans() == 0
    await new.write(NAME, 12, [b"!"])
    assert bytes(await new.read_stored(NAME, 0, 13)) == b"acknowledged!"
