"""Nothing that rots in an object or a row is ever answered as data, or as absence of data."""

import pytest

from headrace.errors import CorruptionError, DataCorruptionError, StorageReadError
from headrace.runtime.blocking import BlockingPool
from headrace.runtime.entropy import SeededEntropy
from headrace.runtime.filesystem import OsFilesystem
from headrace.storage.chunks.config import SegmentStorageConfig
from headrace.storage.chunks.segment_storage import ChunkedSegmentStorage
from headrace.storage.providers.files.chunk_paths import encode_chunk_path
from headrace.storage.providers.files.chunk_threads import ChunkThreads
from headrace.storage.providers.files.filesystem import FilesystemChunkProvider
from headrace.storage.providers.memory import MemoryChunkProvider
from headrace.testing.memory_row_store import MemoryRowStore

CONFIG = SegmentStorageConfig(
    rollover_bytes=70, block_bytes=16, concat_copy_bytes_max=10, garbage_delay_s=0, read_parallel_max=2
)
CONTENT = bytes(range(200))


async def make_storage(provider):
    """Three chunks; the first begins with truncated bytes; written in uneven steps."""
    rows = MemoryRowStore()
    storage = ChunkedSegmentStorage(provider, rows, 1, SeededEntropy(1), CONFIG)
    for start, end in [(0, 9), (9, 100), (100, 101), (101, 200)]:
        await storage.write("s", start, [CONTENT[start:end]], create=True)
    await storage.truncate("s", 20)
    return storage, rows


def reopened(provider, rows):
    return ChunkedSegmentStorage(provider, rows, 2, SeededEntropy(2), CONFIG)


async def read_or_none(storage, offset, length):
    """Return the bytes read, or None if corruption was reported."""
    try:
        return bytes(await storage.read_stored("s", offset, length))
    except CorruptionError:
        return None


@pytest.mark.slow
async def test_a_flipped_bit_anywhere_in_a_chunk_is_detected_by_every_read_that_touches_it():
    provider = MemoryChunkProvider()
    storage, _ = await make_storage(provider)
    for chunk in storage.chunks("s"):
        data = provider.objects[chunk.name]
        for position in range(chunk.length):
            data[position] ^= 1 << (position % 8)
            offset = chunk.start_offset + position
            if offset < 16:  # a block that is truncated as a whole is not read
                assert await read_or_none(storage, 20, 180) == CONTENT[20:]
            else:
                assert await read_or_none(storage, 20, 180) is None
                assert await read_or_none(storage, max(20, offset), 1) is None
            data[position] ^= 1 << (position % 8)
    assert await read_or_none(storage, 20, 180) == CONTENT[20:]
    assert storage.statistics().checksum_failures >= 2 * (200 - 16)


async def test_damage_in_one_block_does_not_hide_the_others():
    provider = MemoryChunkProvider()
    storage, _ = await make_storage(provider)
    chunk = storage.chunks("s")[1]
    provider.objects[chunk.name][0] ^= 1
    second_block = chunk.start_offset + CONFIG.block_bytes
    assert await read_or_none(storage, second_block, 16) == CONTENT[second_block : second_block + 16]


async def test_the_error_names_chunk_and_offset():
    provider = MemoryChunkProvider()
    storage, _ = await make_storage(provider)
    chunk = storage.chunks("s")[1]
    provider.objects[chunk.name][40] ^= 1
    with pytest.raises(DataCorruptionError) as caught:
        await storage.read_stored("s", 20, 180)
    assert (caught.value.path, caught.value.offset) == (chunk.name, 32)


async def test_a_chunk_cut_anywhere_is_detected_and_never_read_short():
    provider = MemoryChunkProvider()
    storage, _ = await make_storage(provider)
    for chunk in storage.chunks("s"):
        whole = bytes(provider.objects[chunk.name])
        for length in range(chunk.length):
            provider.objects[chunk.name][:] = whole[:length]
            assert await read_or_none(storage, 20, 180) is None
        provider.objects[chunk.name][:] = whole


async def test_a_missing_chunk_is_corruption_not_absence():
    provider = MemoryChunkProvider()
    storage, _ = await make_storage(provider)
    for chunk in storage.chunks("s"):
        kept = provider.objects.pop(chunk.name)
        with pytest.raises(DataCorruptionError):
            await storage.read_stored("s", 20, 180)
        provider.objects[chunk.name] = kept


async def test_bytes_behind_the_committed_length_do_not_exist():
    provider = MemoryChunkProvider()
    storage, rows = await make_storage(provider)
    for chunk in storage.chunks("s"):
        provider.objects[chunk.name] += b"written by nobody who could commit it"
    storage = reopened(provider, rows)
    assert await read_or_none(storage, 20, 180) == CONTENT[20:]
    await storage.write("s", 200, [b"new"])
    assert await read_or_none(storage, 20, 183) == CONTENT[20:] + b"new"


@pytest.mark.parametrize("left", [None, 0, 1, 59])
async def test_an_append_behind_a_chunk_that_lost_bytes_goes_into_a_new_one(left, caplog):
    """None: the object is gone. The next owner, which has its own chunks anyway, finds the same."""
    provider = MemoryChunkProvider()
    storage, rows = await make_storage(provider)
    last = storage.chunks("s")[-1]
    whole = bytes(provider.objects[last.name])
    if left is None:
        del provider.objects[last.name]
    else:
        del provider.objects[last.name][left:]
    await storage.write("s", 200, [b"more"])
    assert storage.chunks("s")[-2] == last
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    assert last.name in caplog.text
    await storage.write("s", 204, [b"and more"])
    assert len(storage.chunks("s")) == 4
    for owner in (storage, reopened(provider, rows)):
        assert await read_or_none(owner, 200, 12) == b"moreand more"
        assert await read_or_none(owner, 20, 192) is None
    provider.objects[last.name] = bytearray(whole)  # somebody mends it
    assert await read_or_none(storage, 20, 192) == CONTENT[20:] + b"moreand more"


async def test_a_copied_merge_behind_a_chunk_that_is_gone_goes_into_a_new_one():
    provider = MemoryChunkProvider()
    storage, _, _ = await make_small_source(provider, "none")
    last = storage.chunks("s")[-1]
    del provider.objects[last.name]
    await storage.concat("s", 200, "t")
    assert storage.chunks("s")[-2] == last
    assert await read_or_none(storage, 200, 9) == b"the small"


async def test_an_object_longer_than_committed_gets_no_more_bytes():
    provider = MemoryChunkProvider()
    storage, _ = await make_storage(provider)
    last = storage.chunks("s")[-1]
    provider.objects[last.name] += b"torn"
    await storage.write("s", 200, [b"more"])
    assert storage.chunks("s")[-2] == last
    assert await read_or_none(storage, 20, 184) == CONTENT[20:] + b"more"


async def make_small_source(provider, damage):
    """A target of 200 bytes, and a sealed source of 9 that would be copied were it not damaged."""
    storage, rows = await make_storage(provider)
    await storage.write("t", 0, [b"the small"], create=True)
    await storage.seal("t")
    name = storage.chunks("t")[0].name
    match damage:
        case "flipped":
            provider.objects[name][3] ^= 1
        case "short":
            del provider.objects[name][-1:]
        case "missing":
            del provider.objects[name]
    return storage, rows, name


@pytest.mark.parametrize("damage", ["flipped", "short", "missing"])
async def test_a_small_source_that_is_damaged_is_linked_and_its_damage_found_by_who_reads_it(damage):
    provider = MemoryChunkProvider()
    storage, rows, name = await make_small_source(provider, damage)
    await storage.concat("s", 200, "t")
    assert storage.info_nowait("t") is None
    assert storage.info_nowait("s").length == 209
    assert storage.chunks("s")[-1].name == name
    assert (storage.statistics().concats_copied, storage.statistics().concats_linked) == (0, 1)
    for owner in (storage, reopened(provider, rows)):
        assert await read_or_none(owner, 20, 180) == CONTENT[20:]
        assert await read_or_none(owner, 200, 9) is None


@pytest.mark.parametrize("damage", ["flipped", "short", "missing"])
async def test_what_is_written_behind_a_damaged_source_shares_nothing_with_it(damage):
    provider = MemoryChunkProvider()
    storage, _, name = await make_small_source(provider, damage)
    await storage.concat("s", 200, "t")
    await storage.write("s", 209, [b"more"])
    assert storage.chunks("s")[-2].name == name
    assert await read_or_none(storage, 209, 4) == b"more"
    provider.objects[name] = bytearray(b"the small")  # somebody mends it
    assert await read_or_none(storage, 20, 193) == CONTENT[20:] + b"the smallmore"


async def test_a_small_source_that_storage_does_not_answer_for_is_not_taken_for_damaged():
    provider = MemoryChunkProvider()
    storage, _, _ = await make_small_source(provider, "none")

    async def read(name, offset, length):
        raise StorageReadError(name)

    provider.read = read
    with pytest.raises(StorageReadError):
        await storage.concat("s", 200, "t")
    del provider.read
    await storage.concat("s", 200, "t")
    assert storage.statistics().concats_copied == 1
    assert await read_or_none(storage, 20, 189) == CONTENT[20:] + b"the small"


@pytest.mark.slow
async def test_a_flipped_bit_anywhere_in_a_row_is_detected():
    provider = MemoryChunkProvider()
    _, rows = await make_storage(provider)
    for key in rows.keys("s/") + rows.keys("c/"):
        whole = rows.rows[key]
        for bit in range(8 * len(whole)):
            damaged = bytearray(whole)
            damaged[bit // 8] ^= 1 << (bit % 8)
            rows.rows[key] = bytes(damaged)
            assert await read_or_none(reopened(provider, rows), 20, 180) is None
        rows.rows[key] = whole


async def test_a_row_cut_anywhere_or_missing_is_detected():
    provider = MemoryChunkProvider()
    _, rows = await make_storage(provider)
    for key in rows.keys("s/") + rows.keys("c/"):
        whole = rows.rows[key]
        for length in range(len(whole)):
            rows.rows[key] = whole[:length]
            assert await read_or_none(reopened(provider, rows), 20, 180) is None
        rows.rows[key] = whole
    for key in rows.keys("c/"):
        whole = rows.rows.pop(key)
        assert await read_or_none(reopened(provider, rows), 20, 180) is None
        rows.rows[key] = whole


async def test_damaged_checksum_rows_of_a_large_chunk_are_detected():
    provider = MemoryChunkProvider()
    rows = MemoryRowStore()
    config = SegmentStorageConfig(rollover_bytes=10_000, block_bytes=4)
    storage = ChunkedSegmentStorage(provider, rows, 1, SeededEntropy(1), config)
    content = bytes(range(256)) * 12
    await storage.write("s", 0, [content], create=True)
    keys = rows.keys("k/")
    assert len(keys) == 3
    for key in keys:
        whole = rows.rows[key]
        for damaged in [None, whole[:-1], whole[:20], b"", whole[:9] + bytes([whole[9] ^ 1]) + whole[10:]]:
            if damaged is None:
                del rows.rows[key]
            else:
                rows.rows[key] = damaged
            assert await read_or_none(storage, 0, len(content)) is None
        rows.rows[key] = whole
    assert await read_or_none(storage, 1021, 2000) == content[1021:3021]


async def test_a_flipped_bit_or_a_cut_in_a_chunk_file_is_detected(tmp_path):
    pool = BlockingPool(2, "chunks")
    provider = FilesystemChunkProvider(str(tmp_path), OsFilesystem(), ChunkThreads.shared(pool))
    storage, _ = await make_storage(provider)
    chunk = storage.chunks("s")[1]
    path = tmp_path / encode_chunk_path(chunk.name)
    whole = path.read_bytes()
    for position in range(0, chunk.length, 5):
        path.write_bytes(whole[:position] + bytes([whole[position] ^ 0x10]) + whole[position + 1 :])
        assert await read_or_none(storage, 20, 180) is None
        path.write_bytes(whole[:position])
        assert await read_or_none(storage, 20, 180) is None
    path.write_bytes(whole)
    assert await read_or_none(storage, 20, 180) == CONTENT[20:]
    path.unlink()
    await provider.close()  # an open descriptor would still read the unlinked file
    assert await read_or_none(storage, 20, 180) is None
    pool.close()
    await pool.wait_closed()


async def test_a_damaged_file_that_was_replaced_by_a_good_one_is_read(tmp_path):
    """Who restores a file writes a new one: what was opened before is still the damaged one."""
    pool = BlockingPool(1, "chunks")
    provider = FilesystemChunkProvider(str(tmp_path), OsFilesystem(), ChunkThreads.shared(pool))
    storage, _ = await make_storage(provider)
    path = tmp_path / encode_chunk_path(storage.chunks("s")[1].name)
    good = path.read_bytes()
    with path.open("r+b") as file:
        file.write(bytes([good[0] ^ 1]))
    for _ in range(2):
        assert await read_or_none(storage, 20, 180) is None
    copy = tmp_path / "copy"
    copy.write_bytes(good)
    copy.replace(path)
    assert await read_or_none(storage, 20, 180) == CONTENT[20:]
    await provider.close()
    pool.close()
    await pool.wait_closed()


async def test_a_bit_that_flips_on_the_way_is_read_again():
    class FlippingOnce(MemoryChunkProvider):
        flips = 1

        async def read(self, name, offset, length):
            data = await super().read(name, offset, length)
            if self.flips:
                self.flips -= 1
                damaged = bytearray(data)
                damaged[0] ^= 1
                return memoryview(damaged)
            return data

    storage, _ = await make_storage(FlippingOnce())
    assert await read_or_none(storage, 20, 180) == CONTENT[20:]
    assert storage.statistics().checksum_failures == 1
