"""One index over a real chunk layer in memory: reads, updates, retries, deletion, truncation."""

import asyncio
from array import array

import pytest

from headrace.btree.page_format import ABSENT
from headrace.errors import DataCorruptionError, NoSuchSegmentError, StorageReadError, StorageWriteError
from headrace.limits import KIB
from headrace.runtime.entropy import SeededEntropy
from headrace.segmentstore.attributes.config import AttributesConfig
from headrace.segmentstore.attributes.page_cache import PageCache
from headrace.segmentstore.attributes.segment_index import SegmentIndex
from headrace.storage.chunks.segment_storage import ChunkedSegmentStorage
from headrace.storage.providers.memory import MemoryChunkProvider
from headrace.testing.memory_row_store import MemoryRowStore

NAME = "a/b/0.#epoch.0.7$index"


class Bench:
    def __init__(self, config=None, cache_bytes=1 << 20):
        self.provider, self.rows = MemoryChunkProvider(), MemoryRowStore()
        self.config = config or AttributesConfig()
        self.cache_bytes = cache_bytes
        self.epoch = 0
        self.reopen()

    def reopen(self):
        """As the next owner: nothing is in memory."""
        self.epoch += 1
        self.storage = ChunkedSegmentStorage(self.provider, self.rows, self.epoch, SeededEntropy(self.epoch))
        self.pages = PageCache(self.cache_bytes)
        self.index = SegmentIndex(NAME, 16, lambda: self.storage, self.pages, self.config)

    async def put(self, values, note=b""):
        return await self.index.update(*flat(values), note)

    async def get(self, *keys):
        return list(await self.index.lookup(b"".join(map(key_of, keys))))


def key_of(number):
    return number.to_bytes(16, "big")


def flat(values):
    ordered = sorted(values)
    return b"".join(map(key_of, ordered)), array("q", [values[each] for each in ordered])


async def test_nothing_is_stored_before_the_first_update():
    bench = Bench()
    assert await bench.get(1) == [ABSENT]
    assert (await bench.index.open()).end == 0
    assert (await bench.index.read_range(bytes(16), b"\xff" * 16, 5)).keys == b""


async def test_the_next_owner_finds_what_was_written_and_the_note():
    bench = Bench()
    assert list(await bench.put({1: 10, 2: 20}, b"first")) == [ABSENT, ABSENT]
    assert list(await bench.put({2: ABSENT, 3: 30}, b"second")) == [20, ABSENT]
    bench.reopen()
    assert await bench.get(3, 1, 2) == [30, 10, ABSENT]
    assert (await bench.index.open()).note == b"second"


async def test_a_lookup_without_waiting_answers_from_pages_in_memory_only():
    bench = Bench()
    assert bench.index.lookup_nowait(key_of(1)) is None
    await bench.put({1: 10})
    assert list(bench.index.lookup_nowait(key_of(1))) == [10]
    bench.reopen()
    await bench.index.open()
    assert bench.index.lookup_nowait(key_of(1)) is None
    assert await bench.get(1) == [10]
    assert list(bench.index.lookup_nowait(key_of(1) + key_of(2))) == [10, ABSENT]


async def test_many_readers_of_one_page_read_it_once():
    bench = Bench()
    await bench.put(dict.fromkeys(range(1000), 5))
    bench.reopen()
    found = await asyncio.gather(*(bench.get(each) for each in range(50)))
    assert found == [[5]] * 50
    assert bench.index.pages_read == 1


async def test_dead_pages_are_truncated_in_whole_chunks():
    bench = Bench(AttributesConfig(rollover_bytes=64 * KIB, space_factor=1.5))
    for turn in range(60):
        await bench.put(dict.fromkeys(range(turn % 7, 3000, 7), turn))
    assert bench.storage.info_nowait(NAME).start_offset > 0
    objects = sum([chunk.length for chunk in bench.storage.chunks(NAME)])
    assert objects < 6 * (await bench.index.open()).live_bytes + 512 * KIB
    bench.reopen()
    last = {each: turn for turn in range(60) for each in range(turn % 7, 3000, 7)}
    assert await bench.get(*range(3000)) == [last[each] for each in range(3000)]


async def test_the_next_owner_finds_a_tree_that_was_emptied():
    bench = Bench(AttributesConfig(rollover_bytes=64))
    for turn in range(20):
        await bench.put(dict.fromkeys(range(100), turn))
    await bench.put(dict.fromkeys(range(100), ABSENT), b"empty")
    assert (await bench.storage.info(NAME)).start_offset > 0
    bench.reopen()
    assert await bench.get(1) == [ABSENT]
    assert (await bench.index.open()).note == b"empty"
    await bench.put({1: 1})
    bench.reopen()
    assert await bench.get(1) == [1]


@pytest.mark.slow
async def test_a_read_goes_on_although_its_pages_were_replaced_meanwhile():
    bench = Bench(AttributesConfig(rollover_bytes=64 * KIB, update_keys_max=50), cache_bytes=40 * KIB)
    await bench.put(dict.fromkeys(range(20_000), 0))

    async def read():
        return [value for _ in range(5) for value in await bench.get(*range(0, 20_000, 500))]

    reading = asyncio.create_task(read())
    for turn in range(1, 8):
        await bench.put(dict.fromkeys(range(0, 20_000, 10), turn))
    assert all(0 <= value <= 7 for value in await reading)
    assert await bench.get(10, 11) == [7, 0]


async def test_a_write_that_failed_is_looked_at_again_whether_it_happened_or_not():
    bench = Bench()
    await bench.put({1: 10})
    write = bench.storage.write

    async def fail_before(*args, **options):
        raise StorageWriteError("not written")

    async def fail_behind(*args, **options):
        await write(*args, **options)
        raise StorageWriteError("whether it was written is unknown")

    for fail, value in ((fail_before, 10), (fail_behind, 30)):
        bench.storage.write = fail
        with pytest.raises(StorageWriteError):
            await bench.put({1: 30})
        bench.storage.write = write
        assert await bench.get(1) == [value]
    assert list(await bench.put({1: 40})) == [30]


async def test_a_large_update_of_a_large_index_is_several_writes_and_the_last_has_the_note():
    bench = Bench(AttributesConfig(update_keys_max=7))
    await bench.put({each: each for each in range(20)}, b"all")
    root = await bench.index.open()
    assert (root.entries, root.note) == (20, b"all")


async def test_a_note_may_depend_on_all_values_before_the_update():
    bench = Bench(AttributesConfig(update_keys_max=7))
    await bench.put({each: each for each in range(1, 21)})
    await bench.put(dict.fromkeys(range(21), 0), lambda before: b"%d" % sum(before[1:]))
    assert (await bench.index.open()).note == b"%d" % sum(range(21))


async def test_a_deleted_index_is_gone_and_takes_no_more():
    bench = Bench()
    await bench.put({1: 10})
    await bench.index.delete()
    assert bench.storage.info_nowait(NAME) is None
    with pytest.raises(NoSuchSegmentError):
        await bench.put({1: 11})
    await bench.index.delete()
    assert bench.storage.info_nowait(NAME) is None


async def test_an_update_in_flight_is_finished_or_refused_before_the_index_is_deleted():
    bench = Bench()
    await bench.put({1: 10})
    updates = [asyncio.create_task(bench.put({each: each})) for each in range(2, 6)]
    await asyncio.sleep(0)
    await bench.index.delete()
    await asyncio.gather(*updates, return_exceptions=True)
    assert bench.storage.info_nowait(NAME) is None


async def test_a_footer_of_other_keys_is_damage():
    bench = Bench()
    await bench.put({1: 10})
    other = SegmentIndex(NAME, 8, lambda: bench.storage, bench.pages, bench.config)
    with pytest.raises(DataCorruptionError, match="16 bytes"):
        await other.open()


async def test_a_small_cache_holds_inner_pages_rather_than_leaves():
    bench = Bench(cache_bytes=64 * KIB)
    await bench.put(dict.fromkeys(range(50_000), 1))
    bench.reopen()
    for each in range(0, 50_000, 700):
        await bench.get(each)
    before = bench.index.pages_read
    for each in range(0, 50_000, 700):
        await bench.get(each)
    assert bench.index.pages_read - before <= len(range(0, 50_000, 700)), "one page a lookup at most"
    bench.pages.check()


async def test_a_read_of_several_pages_fails_as_one_of_a_single_page():
    bench = Bench()
    await bench.put(dict.fromkeys(range(5000), 1))
    bench.reopen()
    await bench.get(0)
    read, failures = bench.storage.read_stored, []

    async def fail(*args):
        failures.append(args)
        raise StorageReadError("storage is away")

    bench.storage.read_stored = fail
    with pytest.raises(StorageReadError):
        await bench.get(*range(1000, 5000))
    assert len(failures) > 1
    bench.storage.read_stored = read
    assert await bench.get(*range(1000, 5000)) == [1] * 4000


async def test_an_index_is_opened_while_updates_drop_the_footer_that_is_read():
    bench = Bench(AttributesConfig(rollover_bytes=1 * KIB, space_factor=1.5))
    await bench.put(dict.fromkeys(range(100), 0))
    writer, read = bench.index, bench.storage.read_stored
    reader = SegmentIndex(NAME, 16, lambda: bench.storage, PageCache(1 << 20), bench.config)
    updates = iter(range(1, 4))

    async def read_late(*args):
        if (turn := next(updates, None)) is not None:
            bench.storage.read_stored = read
            await writer.update(*flat(dict.fromkeys(range(100), turn)))
            bench.storage.read_stored = read_late
        return await read(*args)

    bench.storage.read_stored = read_late
    assert list(await reader.lookup(key_of(50))) == [3]
