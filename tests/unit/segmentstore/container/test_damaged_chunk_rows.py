"""A row of a chunk in the middle of a segment is damaged: what goes on, now and behind the next start."""

import dataclasses

import pytest

from headrace.errors import SegmentTruncatedError
from headrace.storage.chunks.config import SegmentStorageConfig
from tests.table_rows import storage_rows_of
from tests.unit.segmentstore.container.container_bench import Bench, append, read_all

CHUNK_BYTES = 64


def chunks_of(letters):
    """The content of a chunk for each letter."""
    return b"".join(bytes([letter]) * CHUNK_BYTES for letter in letters)


@pytest.mark.slow
async def test_a_container_whose_segment_is_truncated_behind_a_damaged_row_stays_and_starts_again():
    bench = Bench()
    storing = SegmentStorageConfig(rollover_bytes=CHUNK_BYTES, block_bytes=1)
    bench.config = dataclasses.replace(bench.config, storage=storing)
    container = await bench.start()
    await container.create("s/a", {})
    await append(container, "s/a", chunks_of(b"abcdefgh"))
    await container.flush_storage()
    storage = container.tiers.storage
    chunks = storage.chunks((await container.resolve("s/a")).storage_name)
    key = f"c/{chunks[2].name}"
    row = (await storage_rows_of(container))[key]
    await container.tiers.table_rows.commit({key: row[:-1] + bytes([row[-1] ^ 1])})
    await container.truncate(await container.resolve("s/a"), 5 * CHUNK_BYTES)
    for name in ("s/b", "s/c"):
        await container.create(name, {})
        await append(container, name, b"kept")
        await container.log.write_checkpoint()
        await container.flush_storage()
        assert await read_all(container, name) == b"kept"
        assert not bench.failures
        container = await bench.start()
        segment = await container.resolve("s/a")
        assert segment.start_offset == 5 * CHUNK_BYTES
        with pytest.raises(SegmentTruncatedError):
            await container.read(segment, 5 * CHUNK_BYTES - 1, 1, wait=False)
    await append(container, "s/a", chunks_of(b"ijk"))
    await container.truncate(segment, 10 * CHUNK_BYTES)
    await container.flush_storage()
    assert await read_all(container, "s/a") == chunks_of(b"k")
    await bench.stop()
