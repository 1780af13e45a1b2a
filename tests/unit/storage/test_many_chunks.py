"""Segments of thousands of chunks: what looks at how many rows, and in how many turns of the loop."""

import asyncio
from itertools import pairwise

import pytest

from headrace.errors import DataCorruptionError, NoSuchSegmentError, SegmentTruncatedError
from headrace.runtime.entropy import SeededEntropy
from headrace.storage.chunks.config import SegmentStorageConfig
from headrace.storage.chunks.segment_storage import ChunkedSegmentStorage
from headrace.storage.providers.memory import MemoryChunkProvider
from headrace.testing.memory_row_store import MemoryRowStore
from tests.unit.storage.chunks_at_hand import ChunksAtHand

CHUNKS = 2000
CHUNK = 4
PORTION = 100
A_FEW = 8


class CountedRows(MemoryRowStore):
    """Tells how many rows of chunks were looked at, in all and in each turn of the loop with any."""

    def __init__(self):
        super().__init__()
        self.forget()
        self.commits = []

    def forget(self):
        self.looked_at, self.turns, self._open = 0, [], False
        self._goal, self._reached = 0, asyncio.Event()

    async def wait_for(self, count):
        self._goal = count
        await self._reached.wait()

    def get(self, key):
        if key.startswith("c/"):
            self.looked_at += 1
            if self.looked_at == self._goal:
                self._reached.set()
            if not self._open:
                self._open = True
                self.turns.append(0)
                asyncio.get_running_loop().call_soon(self._close)
            self.turns[-1] += 1
        return super().get(key)

    def _close(self):
        self._open = False

    async def commit(self, changes):
        self.commits.append(dict(changes))
        await super().commit(changes)


class Store:
    def __init__(self):
        self.objects = MemoryChunkProvider()
        self.rows = CountedRows()
        self.content = {}

    def owner(self, epoch, **config):
        settings = {"block_bytes": CHUNK, "rollover_bytes": CHUNK, "garbage_delay_s": 0.0}
        settings |= {"walk_rows_max": PORTION, "concat_copy_bytes_max": 16} | config
        return ChunkedSegmentStorage(
            ChunksAtHand(self.objects),
            self.rows,
            epoch,
            SeededEntropy(epoch),
            SegmentStorageConfig(**settings),
        )

    async def fill(self, name="s", chunks=CHUNKS):
        """Write a segment of so many full chunks and the beginning of one; return who owns it now."""
        content = b"".join(b"%04d" % number for number in range(chunks)) + b"xy"
        await self.owner(1).write(name, 0, [content], create=True)
        self.content[name] = content
        self.rows.commits.clear()
        self.rows.forget()
        return self.owner(2)


@pytest.fixture
async def store():
    return Store()


@pytest.mark.slow
async def test_a_flush_looks_at_a_few_rows_however_many_chunks_there_are(store):
    storage = await store.fill()
    at = storage.info_nowait("s").length
    await storage.write("s", at, [b"z"])
    await storage.write("s", at + 1, [b"z" * 3 * CHUNK])
    await storage.seal("s")
    assert store.rows.looked_at <= A_FEW
    assert max(map(len, store.rows.commits)) <= A_FEW
    assert bytes(await storage.read_stored("s", at - 400, 413)) == store.content["s"][-400:] + b"z" * 13


async def test_a_read_at_the_end_looks_at_a_few_rows(store):
    storage = await store.fill()
    assert bytes(await storage.read_stored("s", CHUNKS * CHUNK, 2)) == b"xy"
    assert storage.read_at_once("s", CHUNKS * CHUNK, 2, memoryview(bytearray(64)))[:2] == (0, 2)
    assert store.rows.looked_at <= A_FEW


async def test_a_read_looks_at_a_portion_of_the_rows_in_each_turn_and_never_again(store):
    storage = await store.fill()
    assert storage.read_at_once("s", 1500 * CHUNK, 1, memoryview(bytearray(64)))[:2] == (0, 0)
    assert bytes(await storage.read_stored("s", 1500 * CHUNK, 6)) == b"150015"
    assert max(store.rows.turns) <= PORTION + A_FEW
    assert 1500 <= store.rows.looked_at <= 1500 + A_FEW * 3
    store.rows.forget()
    for number in range(0, 1500, 7):
        assert bytes(await storage.read_stored("s", number * CHUNK, 4)) == b"%04d" % number
    assert store.rows.looked_at <= 1500 // 7 + 1
    buffer = memoryview(bytearray(64))
    begin, end, _ = storage.read_at_once("s", 700 * CHUNK + 1, 3, buffer)
    assert bytes(buffer[begin:end]) == b"700"


async def test_a_small_segment_is_read_at_once_by_its_first_reader(store):
    storage = await store.fill(chunks=PORTION // 2)
    buffer = memoryview(bytearray(64))
    begin, end, _ = storage.read_at_once("s", 20 * CHUNK, CHUNK, buffer)
    assert bytes(buffer[begin:end]) == b"0020"


async def test_many_readers_go_through_the_rows_once(store):
    storage = await store.fill()
    reads = [storage.read_stored("s", number * CHUNK, 4) for number in range(0, CHUNKS, 100)]
    answers = await asyncio.gather(*reads)
    assert list(map(bytes, answers)) == [b"%04d" % number for number in range(0, CHUNKS, 100)]
    assert store.rows.looked_at <= CHUNKS + 3 * len(reads)
    assert max(store.rows.turns) <= PORTION + 2 * len(reads)


async def test_a_reader_that_gives_up_leaves_what_it_found_to_the_next(store):
    storage = await store.fill()
    first, second = (asyncio.ensure_future(storage.read_stored("s", 1900 * CHUNK, 4)) for _ in range(2))
    await store.rows.wait_for(1000)
    first.cancel()
    assert bytes(await second) == b"1900"
    assert store.rows.looked_at <= 1900 + A_FEW
    with pytest.raises(asyncio.CancelledError):
        await first


@pytest.mark.slow
@pytest.mark.parametrize("layouts_max", [1, 10])
async def test_readers_of_several_segments_do_not_keep_each_other_from_the_end(store, layouts_max):
    for name in ("a", "b", "c"):
        await store.fill(name)
    storage = store.owner(2, layouts_max=layouts_max)
    async with asyncio.timeout(60):
        answers = await asyncio.gather(*(storage.read_stored(name, 1999 * CHUNK, 6) for name in "abc"))
    assert list(map(bytes, answers)) == [b"1999xy"] * 3
    assert max(store.rows.turns) <= PORTION + 4 * A_FEW


async def halfway(store, storage, offset=1900 * CHUNK):
    """Begin a read and let it look at half of the rows."""
    read = asyncio.ensure_future(storage.read_stored("s", offset, 6))
    await store.rows.wait_for(1000)
    assert not read.done()
    return read


async def test_a_segment_may_grow_while_its_rows_are_looked_at(store):
    storage = await store.fill()
    read = await halfway(store, storage)
    await storage.write("s", CHUNKS * CHUNK + 2, [b"more" * 50])
    assert bytes(await read) == b"190019"
    assert bytes(await storage.read_stored("s", CHUNKS * CHUNK + 1, 5)) == b"ymore"


@pytest.mark.slow
@pytest.mark.parametrize("start", [10, 500, 1500])
async def test_a_segment_may_be_truncated_while_its_rows_are_looked_at(store, start):
    storage = await store.fill()
    read = await halfway(store, storage)
    truncation = asyncio.ensure_future(storage.truncate("s", start * CHUNK + 1))
    assert bytes(await read) == b"190019"
    await truncation
    while await storage.garbage.collect():
        pass
    assert len(storage.chunks("s")) == CHUNKS + 1 - start
    for number in (start + 1, 1950, 1999):
        assert bytes(await storage.read_stored("s", number * CHUNK, 4)) == b"%04d" % number
    with pytest.raises(SegmentTruncatedError):
        await storage.read_stored("s", start * CHUNK, 1)


async def test_a_segment_may_be_truncated_near_its_end_while_its_rows_are_looked_at(store):
    storage = await store.fill()
    read = await halfway(store, storage)
    await storage.truncate("s", CHUNKS * CHUNK + 1)
    await storage.garbage.collect()
    with pytest.raises(SegmentTruncatedError):
        await read
    assert store.rows.looked_at < CHUNKS + A_FEW + 1000, "those of the garbage, and no other"
    assert bytes(await storage.read_stored("s", CHUNKS * CHUNK + 1, 1)) == b"y"


async def test_a_segment_may_be_deleted_and_made_again_while_its_rows_are_looked_at(store):
    storage = await store.fill()
    read = await halfway(store, storage)
    await storage.delete("s")
    with pytest.raises(NoSuchSegmentError):
        await read
    read = asyncio.ensure_future(storage.read_stored("s", 0, 6))
    with pytest.raises(NoSuchSegmentError):
        await read
    await storage.write("s", 0, [b"another one"], create=True)
    assert bytes(await storage.read_stored("s", 0, 11)) == b"another one"


async def test_a_segment_may_be_joined_to_another_while_its_rows_are_looked_at(store):
    storage = await store.fill()
    await storage.write("t", 0, [b"target"], create=True)
    await storage.seal("s")
    read = await halfway(store, storage)
    await storage.concat("t", 6, "s")
    with pytest.raises(NoSuchSegmentError):
        await read
    assert bytes(await storage.read_stored("t", 4, 6)) == b"et0000"
    assert bytes(await storage.read_stored("t", 6 + 1999 * CHUNK, 6)) == b"1999xy"


async def test_joining_and_deleting_change_a_few_rows_and_look_at_as_few(store):
    storage = await store.fill("source")
    await store.fill("s")
    await storage.seal("source")
    await storage.concat("s", CHUNKS * CHUNK + 2, "source")
    assert len(store.rows.commits[-1]) == 3
    assert sum(len(row or b"") for row in store.rows.commits[-1].values()) < 1000
    assert storage.info_nowait("s").chunk_count == 2 * (CHUNKS + 1)
    await storage.delete("s")
    assert len(store.rows.commits[-1]) == 2
    assert store.rows.looked_at <= A_FEW


async def test_half_of_a_segment_is_truncated_in_one_commit_and_many_turns(store):
    storage = await store.fill()
    await storage.truncate("s", 1000 * CHUNK + 2)
    assert len(store.rows.commits[-1]) == 2
    assert max(store.rows.turns) <= PORTION + A_FEW
    assert 1000 <= store.rows.looked_at <= 1000 + A_FEW
    store.rows.forget()
    store.rows.commits.clear()
    while await storage.garbage.collect(500):
        pass
    assert max(map(len, store.rows.commits)) <= 1000
    assert max(store.rows.turns) <= 64
    assert len(store.objects.objects) == len(storage.chunks("s")) == 1001


async def test_a_row_in_the_middle_that_is_damaged_hurts_reads_behind_it_and_nothing_else(store):
    storage = await store.fill()
    keys = [f"c/{chunk.name}" for chunk in storage.chunks("s")]
    row = store.rows.rows[keys[1200]]
    store.rows.rows[keys[1200]] = row[:-1] + bytes([row[-1] ^ 1])
    assert bytes(await storage.read_stored("s", 1100 * CHUNK, 4)) == b"1100"
    for offset in (1200, 1300):
        with pytest.raises(DataCorruptionError, match="fails its checksum"):
            await storage.read_stored("s", offset * CHUNK, 4)
    await storage.write("s", CHUNKS * CHUNK + 2, [b"more"])
    assert bytes(await storage.read_stored("s", CHUNKS * CHUNK + 4, 2)) == b"re"


@pytest.mark.slow
@pytest.mark.parametrize("gone", [False, True])
async def test_a_truncation_behind_a_damaged_row_happens_and_drops_nothing_that_it_cannot_find(
    store, caplog, gone
):
    storage = await store.fill()
    names = [chunk.name for chunk in storage.chunks("s")]
    row = store.rows.rows.pop(f"c/{names[1200]}")
    if not gone:
        store.rows.rows[f"c/{names[1200]}"] = row[:-1] + bytes([row[-1] ^ 1])
    await storage.truncate("s", 100 * CHUNK)  # in front of it
    for start in (1500, 1600):
        caplog.clear()
        await storage.truncate("s", start * CHUNK + 1)
        assert [record.levelname for record in caplog.records] == ["ERROR"]
        assert "damaged data" in caplog.text
        for owner in (storage, store.owner(3)):
            assert owner.info_nowait("s").start_offset == start * CHUNK + 1
            with pytest.raises(SegmentTruncatedError):
                await owner.read_stored("s", 1400 * CHUNK, 4)
            with pytest.raises(DataCorruptionError):
                await owner.read_stored("s", 1700 * CHUNK, 4)
            assert bytes(await owner.read_stored("s", CHUNKS * CHUNK, 2)) == b"xy"
    while await storage.garbage.collect():
        pass
    assert sorted(store.objects.objects) == sorted(names[100:])
    await storage.write("s", CHUNKS * CHUNK + 2, [b"more"])
    store.rows.rows[f"c/{names[1200]}"] = row  # somebody mends it
    storage = store.owner(3)
    assert bytes(await storage.read_stored("s", 1700 * CHUNK, 4)) == b"1700"
    await storage.truncate("s", 1800 * CHUNK)
    while await storage.garbage.collect():
        pass
    assert len(store.objects.objects) == len(storage.chunks("s")) == CHUNKS + 2 - 1800


async def test_a_truncation_to_the_last_chunk_looks_at_no_damaged_row(store):
    storage = await store.fill()
    del store.rows.rows[f"c/{storage.chunks('s')[1200].name}"]
    await storage.truncate("s", CHUNKS * CHUNK + 1)
    assert [chunk.start_offset for chunk in storage.chunks("s")] == [CHUNKS * CHUNK]


@pytest.mark.slow
async def test_rows_that_lead_back_or_past_the_end_are_corruption_and_end(store):
    storage = await store.fill()
    keys = [f"c/{chunk.name}" for chunk in storage.chunks("s")]
    rows = store.rows.rows
    for wrong, other in [(1500, 3), (1500, 1600), (1999, 2000), (5, 2000)]:
        right, rows[keys[wrong]] = rows[keys[wrong]], rows[keys[other]]
        with pytest.raises(DataCorruptionError):
            await store.owner(2).read_stored("s", 0, CHUNKS * CHUNK)
        rows[keys[wrong]] = right
    names = [chunk.name for chunk in storage.chunks("s")]
    assert all(first != second for first, second in pairwise(names))
