"""Chunked segment storage: what it promises, what it refuses, whose objects it touches."""

import asyncio
import dataclasses
import os

import pytest

from headrace.errors import (
    ChecksumMismatchError,
    ContainerOfflineError,
    DataCorruptionError,
    FencedOutError,
    InvalidArgumentError,
    NoSuchSegmentError,
    OffsetMismatchError,
    SegmentExistsError,
    SegmentNotSealedError,
    SegmentSealedError,
    SegmentTruncatedError,
    StorageFullError,
    StorageReadError,
    StorageWriteError,
    ThrottledError,
    WalWriteError,
)
from headrace.runtime.blocking import BlockingPool
from headrace.runtime.entropy import SeededEntropy
from headrace.runtime.filesystem import OsFilesystem
from headrace.storage.chunks.config import SegmentStorageConfig
from headrace.storage.chunks.segment_storage import ChunkedSegmentStorage
from headrace.storage.providers.files.chunk_threads import ChunkThreads
from headrace.storage.providers.files.filesystem import FilesystemChunkProvider
from headrace.storage.providers.memory import MemoryChunkProvider
from headrace.storage.providers.wrappers.wrapper import ChunkProviderWrapper
from headrace.testing.memory_row_store import MemoryRowStore
from headrace.testing.simulation import simulate
from headrace.testing.storage_faults import Fault, FaultyChunkProvider, FaultyRowStore, fail_reads
from tests.unit.storage.chunks_at_hand import ChunksAtHand

CONFIG = SegmentStorageConfig(
    rollover_bytes=100, block_bytes=8, concat_copy_bytes_max=20, garbage_delay_s=0, read_parallel_max=2
)


class Store:
    """Objects and rows that outlive their owners."""

    def __init__(self, **arguments):
        self.objects = MemoryChunkProvider(**arguments)
        self.provider = FaultyChunkProvider(self.objects)
        self.rows = FaultyRowStore(MemoryRowStore())
        self.owners = 0

    def owner(self, epoch, config=CONFIG):
        self.owners += 1
        return ChunkedSegmentStorage(self.provider, self.rows, epoch, SeededEntropy(self.owners), config)


async def read_all(storage, name):
    info = storage.info_nowait(name)
    return bytes(await storage.read_stored(name, info.start_offset, info.length - info.start_offset))


async def collect_all(storage):
    while await storage.garbage.collect():
        pass


# ---------------------------------------------------------------------------------- plain use


async def test_a_created_segment_is_empty_and_has_no_object():
    store = Store()
    storage = store.owner(1)
    await storage.create("s", rollover_bytes=50)
    info = storage.info_nowait("s")
    assert (info.length, info.start_offset, info.sealed, info.chunk_count) == (0, 0, False, 0)
    assert (info.owner_epoch, info.rollover_bytes) == (1, 50)
    assert not store.objects.objects
    assert store.rows.rows.keys("s/") == ["s/s"]
    with pytest.raises(SegmentExistsError):
        await storage.create("s")


async def test_an_unknown_segment_is_none_or_refused():
    storage = Store().owner(1)
    assert storage.info_nowait("s") is None
    for call in [
        storage.write("s", 0, [b"x"]),
        storage.write("s", 5, [b"x"], create=True),
        storage.read_stored("s", 0, 1),
        storage.seal("s"),
        storage.truncate("s", 0),
        storage.delete("s"),
        storage.concat("s", 0, "t"),
    ]:
        with pytest.raises(NoSuchSegmentError):
            await call
    with pytest.raises(NoSuchSegmentError):
        storage.chunks("s")


async def test_a_write_anywhere_but_at_the_end_is_refused_and_names_the_length():
    storage = Store().owner(1)
    await storage.write("s", 0, [b"abc"], create=True)
    for offset in (0, 2, 4):
        with pytest.raises(OffsetMismatchError) as caught:
            await storage.write("s", offset, [b"x"])
        assert caught.value.actual == 3
    assert await read_all(storage, "s") == b"abc"


async def test_a_sealed_segment_takes_no_bytes_and_can_be_truncated():
    storage = Store().owner(1)
    await storage.write("s", 0, [b"abc"], create=True)
    await storage.seal("s")
    await storage.seal("s")
    with pytest.raises(SegmentSealedError):
        await storage.write("s", 3, [b"x"])
    await storage.truncate("s", 2)
    assert await read_all(storage, "s") == b"c"


async def test_truncation_is_monotonous_bounded_and_hides_at_once():
    storage = Store().owner(1)
    await storage.write("s", 0, [b"abcdef"], create=True)
    await storage.truncate("s", 4)
    await storage.truncate("s", 2)
    assert storage.info_nowait("s").start_offset == 4
    with pytest.raises(SegmentTruncatedError) as caught:
        await storage.read_stored("s", 3, 1)
    assert (caught.value.start_offset, caught.value.offset) == (4, 3)
    with pytest.raises(InvalidArgumentError):
        await storage.truncate("s", 7)
    with pytest.raises(InvalidArgumentError):
        await storage.read_stored("s", 5, 2)
    await storage.truncate("s", 6)
    assert storage.chunks("s") == []
    await storage.write("s", 6, [b"g"])
    assert await read_all(storage, "s") == b"g"


async def test_chunks_roll_over_at_their_size_and_say_what_they_hold():
    store = Store()
    storage = store.owner(1)
    content = bytes(range(250))
    await storage.write("s", 0, [content[:60]], create=True)
    await storage.write("s", 60, [content[60:]])
    chunks = storage.chunks("s")
    assert [(chunk.start_offset, chunk.length, chunk.epoch) for chunk in chunks] == [
        (0, 100, 1),
        (100, 100, 1),
        (200, 50, 1),
    ]
    for chunk in chunks:
        assert f"c0/s.E-1-O-{chunk.start_offset}-" in chunk.name
        end = chunk.start_offset + chunk.length
        assert store.objects.objects[chunk.name] == content[chunk.start_offset : end]


async def test_a_large_segment_is_read_across_many_chunks_and_blocks():
    store = Store()
    storage = store.owner(1, SegmentStorageConfig(rollover_bytes=5000, block_bytes=3, read_parallel_max=3))
    content = SeededEntropy(1).token(40_000)
    for offset in range(0, 40_000, 1777):
        await storage.write("s", offset, [content[offset : offset + 1777]], create=True)
    assert len(storage.chunks("s")) == 8
    assert len(store.rows.rows.keys("k/")) == 8 * (5000 // 3 // 256)
    fresh = store.owner(2)
    assert await read_all(fresh, "s") == content
    for offset in range(0, 39_000, 997):
        assert await fresh.read_stored("s", offset, 1000) == content[offset : offset + 1000]


async def test_a_read_across_many_chunks_takes_as_long_as_that_of_one():
    """So a reader of them gets something in time, however slow the store is."""
    store = Store()
    storage = store.owner(1)
    content = SeededEntropy(1).token(2_000)
    await storage.write("s", 0, [content], create=True)
    assert len(storage.chunks("s")) == 20
    fresh, reads = store.owner(2), []
    store.provider.on_read = reads.append
    data = await fresh.read_some("s", 50, 1_900)
    assert len(reads) == 2, "as many as are read at the same time"
    assert data == content[50:200]
    assert await fresh.read_stored("s", 50, 1_900) == content[50:1950]


@pytest.mark.slow
async def test_what_is_read_at_once_is_whole_blocks_around_the_offset():
    store = Store()
    store.provider = ChunksAtHand(store.objects)
    storage = store.owner(1)
    content = bytes(number % 251 for number in range(3021))
    await storage.write("s", 0, [content[:2001]], create=True)
    storage = store.owner(2)  # a chunk of its own begins at 2001
    await storage.write("s", 2001, [content[2001:]])
    for size in (8, 16, 24, 64, 200, 4096):
        position = 0
        reads = 0
        while position < len(content):
            buffer = bytearray(size)
            begin, end, _ = storage.read_at_once("s", position, size, memoryview(buffer))
            assert begin < end <= size, position
            assert buffer[:end] == content[position - begin : position - begin + end]
            position += end - begin
            reads += 1
            chunk = next(c for c in storage.chunks("s") if position <= c.start_offset + c.length)
            inside = position - chunk.start_offset
            assert inside % 8 == 0 or inside == chunk.length
        assert reads <= len(content) // (size - 7) + len(storage.chunks("s"))
    assert storage.read_at_once("s", 3, 7, memoryview(bytearray(7))) == (0, 0, None)  # smaller than a block
    for offset in (-1, 3021, 5000):
        assert storage.read_at_once("s", offset, 64, memoryview(bytearray(64))) == (0, 0, None)
    assert storage.read_at_once("unknown", 0, 64, memoryview(bytearray(64))) == (0, 0, None)
    await storage.truncate("s", 1000)
    assert storage.read_at_once("s", 999, 64, memoryview(bytearray(64))) == (0, 0, None)


async def test_the_span_of_what_is_read_at_once_holds_the_same_bytes(tmp_path):
    pool = BlockingPool(2, "chunks")
    provider = FilesystemChunkProvider(str(tmp_path), OsFilesystem(), ChunkThreads.shared(pool))
    storage = ChunkedSegmentStorage(provider, MemoryRowStore(), 1, SeededEntropy(1), CONFIG)
    content = bytes(number % 251 for number in range(1000))
    for offset in range(0, 1000, 70):  # chunks of 100 bytes and a rest
        await storage.write("s", offset, [content[offset : offset + 70]], create=True)
    assert await read_all(storage, "s") == content
    for offset in range(1000):
        buffer = bytearray(64)
        begin, end, span = storage.read_at_once("s", offset, 40, memoryview(buffer))
        assert begin < end
        assert buffer[begin:end] == content[offset : offset + end - begin]
        assert span is not None
        assert os.pread(span.file.descriptor, end - begin, span.offset) == buffer[begin:end]
    await provider.close()
    pool.close()
    await pool.wait_closed()


async def test_a_range_read_at_once_is_not_cut_if_the_buffer_has_room_to_spare():
    store = Store()
    store.provider = ChunksAtHand(store.objects)
    storage = store.owner(1)
    content = bytes(range(99))
    await storage.write("s", 0, [content], create=True)
    for offset in range(99):
        for length in range(1, 99 - offset):
            buffer = bytearray(length + 14)
            begin, end, _ = storage.read_at_once("s", offset, length, memoryview(buffer))
            assert end - begin >= length
            assert end - begin - length < 8
            if not length % 8:
                buffer = bytearray(length + 8)
                assert storage.read_at_once("s", offset, length, memoryview(buffer)) == (begin, end, None)
            assert buffer[begin:end] == content[offset : offset + end - begin]


async def test_nothing_behind_a_bit_that_flipped_is_read_at_once():
    store = Store()
    store.provider = ChunksAtHand(store.objects)
    storage = store.owner(1)
    content = bytes(range(96))
    await storage.write("s", 0, [content], create=True)
    (data,) = store.objects.objects.values()
    for bit in range(8 * 96):
        data[bit // 8] ^= 1 << bit % 8
        buffer = bytearray(96)
        begin, end, _ = storage.read_at_once("s", 0, 96, memoryview(buffer))
        assert (begin, end) == (0, bit // 64 * 8)
        assert buffer[:end] == content[:end]
        data[bit // 8] ^= 1 << bit % 8
    assert storage.statistics().checksum_failures == 8 * 96
    del data[50:]
    assert storage.read_at_once("s", 0, 96, memoryview(bytearray(96))) == (0, 48, None)


async def test_without_append_every_write_is_a_chunk_of_its_own():
    store = Store(supports_append=False)
    storage = store.owner(1)
    for offset in range(5):
        await storage.write("s", offset, [b"x"], create=True)
    assert len(storage.chunks("s")) == 5
    assert await read_all(storage, "s") == b"xxxxx"


# ---------------------------------------------------------------------------------- concat


@pytest.mark.parametrize("size", [1, 20, 21, 350])
@pytest.mark.parametrize("before", [0, 30, 100])
async def test_a_source_becomes_the_end_of_its_target_whatever_its_size(size, before):
    store = Store()
    storage = store.owner(1)
    await storage.create("s")
    if before:
        await storage.write("s", 0, [b"b" * before])
    await storage.write("t", 0, [bytes(range(256))[:size] * (size // 256 + 1)], create=True)
    content = b"b" * before + await read_all(storage, "t")
    await storage.seal("t")
    await storage.concat("s", before, "t")
    assert storage.info_nowait("t") is None
    await storage.write("s", len(content), [b"after"])
    await collect_all(storage)
    assert await read_all(storage, "s") == content + b"after"
    assert await read_all(store.owner(2), "s") == content + b"after"
    assert set(store.objects.objects) == {chunk.name for chunk in storage.chunks("s")}


@pytest.mark.slow
async def test_a_thousand_small_sources_leave_few_chunks():
    store = Store()
    storage = store.owner(1, SegmentStorageConfig(rollover_bytes=10_000, block_bytes=64, garbage_delay_s=0))
    await storage.create("s")
    for number in range(1000):
        await storage.write("t", 0, [b"0123456789"], create=True)
        await storage.seal("t")
        await storage.concat("s", 10 * number, "t")
    await collect_all(storage)
    assert len(storage.chunks("s")) == 1
    assert len(store.objects.objects) == 1
    assert storage.statistics().concats_copied == 1000


@pytest.mark.parametrize("before", [0, 5])
async def test_an_empty_source_only_disappears(before):
    storage = Store().owner(1)
    await storage.write("s", 0, [b"x" * before], create=True)
    await storage.create("t")
    await storage.seal("t")
    chunks = storage.chunks("s")
    await storage.concat("s", before, "t")
    assert storage.chunks("s") == chunks
    assert storage.info_nowait("t") is None
    await storage.write("s", before, [b"y"])


async def test_what_must_not_be_joined_is_refused_and_nothing_changes():
    storage = Store().owner(1)
    await storage.write("s", 0, [b"abc"], create=True)
    await storage.write("t", 0, [b"def"], create=True)
    with pytest.raises(SegmentNotSealedError):
        await storage.concat("s", 3, "t")
    await storage.seal("t")
    with pytest.raises(OffsetMismatchError):
        await storage.concat("s", 2, "t")
    with pytest.raises(InvalidArgumentError):
        await storage.concat("t", 3, "t")
    await storage.truncate("t", 1)
    with pytest.raises(InvalidArgumentError):
        await storage.concat("s", 3, "t")
    await storage.seal("s")
    with pytest.raises(SegmentSealedError):
        await storage.concat("s", 3, "t")
    assert await read_all(storage, "s") == b"abc"
    assert await read_all(storage, "t") == b"ef"


@pytest.mark.parametrize("size", [10, 150])
async def test_a_source_that_is_being_joined_is_not_deleted_by_others(size):
    """Its chunks are the target's by then: they would be deleted from under it."""
    store = Store()
    storage = store.owner(1)
    await storage.write("t", 0, [b"t" * 30], create=True)
    await storage.write("x", 0, [b"x" * size], create=True)
    await storage.seal("x")
    joined, deleted = await asyncio.gather(
        storage.concat("t", 30, "x"), storage.delete("x"), return_exceptions=True
    )
    assert joined == 30 + size
    assert isinstance(deleted, NoSuchSegmentError)
    while await storage.garbage.collect():
        pass
    assert await read_all(storage, "t") == b"t" * 30 + b"x" * size


@pytest.mark.parametrize("missing", [1, 8])
async def test_a_provider_that_answers_fewer_bytes_than_asked_for_gives_no_reader_fewer(missing):
    store = Store()
    storage = store.owner(1)
    await storage.write("s", 0, [bytes(range(24))], create=True)
    read = store.provider.read

    async def read_less(name, offset, length):
        return (await read(name, offset, length))[:-missing]

    store.provider.read = read_less
    with pytest.raises(StorageReadError):
        await storage.read_stored("s", 0, 24)
    store.provider.read = read
    assert await read_all(storage, "s") == bytes(range(24))


async def test_two_joins_in_opposite_directions_do_not_wait_for_each_other():
    storage = Store().owner(1)
    for name in ("a", "b"):
        await storage.write(name, 0, [b"x"], create=True)
        await storage.seal(name)
    answers = await asyncio.wait_for(
        asyncio.gather(storage.concat("a", 1, "b"), storage.concat("b", 1, "a"), return_exceptions=True), 5
    )
    assert all(isinstance(answer, SegmentSealedError) for answer in answers)
    assert storage.statistics().segments_busy == 0


# ---------------------------------------------------------------------------------- owners


async def test_a_new_owner_never_writes_to_an_object_of_an_older_one():
    store = Store()
    old = store.owner(1)
    await old.write("s", 0, [b"old"], create=True)
    first = old.chunks("s")[0].name
    new = store.owner(2)
    await new.write("s", 3, [b"new"])
    assert store.objects.objects[first] == b"old"
    assert [chunk.epoch for chunk in new.chunks("s")] == [1, 2]
    assert await read_all(new, "s") == b"oldnew"


async def test_an_owner_that_finds_a_newer_one_is_fenced_out():
    store = Store()
    await store.owner(3).write("s", 0, [b"x"], create=True)
    old = store.owner(2)
    for call in [
        old.write("s", 1, [b"y"]),
        old.seal("s"),
        old.truncate("s", 1),
        old.delete("s"),
        old.concat("s", 1, "s"),
    ]:
        with pytest.raises(FencedOutError):
            await call
    assert await read_all(old, "s") == b"x"


async def test_what_a_zombie_writes_behind_the_committed_bytes_is_never_seen():
    store = Store()
    zombie = store.owner(1)
    await zombie.write("s", 0, [b"old"], create=True)
    store.rows.inject = lambda _: Fault.FAIL  # the log is fenced: the zombie cannot commit
    with pytest.raises(WalWriteError):
        await zombie.write("s", 3, [b"zombie"])
    store.rows.inject = lambda _: None
    new = store.owner(2)
    store.objects.objects[new.chunks("s")[0].name] += b"zombie again"
    await new.write("s", 3, [b"new"])
    store.objects.objects[new.chunks("s")[0].name] += b"and again"
    assert await read_all(new, "s") == b"oldnew"
    newest = store.owner(3)
    await newest.write("s", 6, [b"newest"])
    assert await read_all(newest, "s") == b"oldnewnewest"


async def test_leftovers_of_older_epochs_are_deleted_and_nothing_else():
    store = Store()
    dead = store.owner(1)
    await dead.write("s", 0, [b"kept"], create=True)
    store.rows.inject = lambda _: Fault.FAIL
    with pytest.raises(WalWriteError):
        await dead.write("t", 0, [b"lost"], create=True)
    store.rows.inject = lambda _: None
    kept = dead.chunks("s")[0].name
    foreign = {
        "c0/t.E-1-O-0-" + "0" * 32: b"of metadata that was lost",
        "README": b"no chunk at all",
    }
    store.objects.objects |= {name: bytearray(data) for name, data in foreign.items()}
    assert len(store.objects.objects) == 4
    new = store.owner(2)
    await new.write("u", 0, [b"ours"], create=True)
    store.rows.inject = lambda _: Fault.FAIL
    with pytest.raises(WalWriteError):
        await new.write("t", 0, [b"on its way, or ours to delete"], create=True)
    store.rows.inject = lambda _: None
    foreign |= {name: b"" for name in store.objects.objects if ".E-2-" in name}
    assert await new.garbage.collect_orphans() == 1
    assert set(store.objects.objects) == {kept, *foreign}
    assert new.statistics().leftovers_deleted == 1


@pytest.mark.parametrize("owners_since", [1, 3])
async def test_objects_newer_than_the_log_are_kept_and_so_is_all_that_no_row_names(owners_since, caplog):
    """An older log was put back: what no row names is what was acknowledged since."""
    store = Store()
    await store.owner(1).write("s", 0, [b"as of the copy"], create=True)
    kept = MemoryRowStore()
    await kept.commit({key: store.rows.get(key) for key in store.rows.rows.keys("")})
    await store.owner(1).write("s", 14, [b" and then"])
    for epoch in range(2, 2 + owners_since):
        storage = store.owner(epoch)
        await storage.write("s", storage.info_nowait("s").length, [b"newer"])
    found = set(store.objects.objects)
    store.rows = FaultyRowStore(kept)
    for epoch in range(2, 9):
        storage = store.owner(epoch)
        await storage.write("s", storage.info_nowait("s").length, [b"other"])
        assert await storage.garbage.collect_orphans() == 0
        assert found <= set(store.objects.objects)
    assert sum("older log" in record.message for record in caplog.records) == 1
    assert await read_all(storage, "s") == b"as of the copy" + 7 * b"other"
    store.rows.inject = lambda _: Fault.FAIL
    with pytest.raises(WalWriteError):
        await storage.write("t", 0, [b"lost"], create=True)
    store.rows.inject = lambda _: None
    assert await store.owner(9).garbage.collect_orphans() == 1, "those from now on are deleted again"


async def test_more_leftovers_than_are_remembered_are_deleted_all(monkeypatch):
    monkeypatch.setattr("headrace.storage.chunks.garbage_collector._LISTED_MAX", 3)
    store = Store()
    await store.owner(1).write("s", 0, [b"kept"], create=True)
    (kept,) = store.objects.objects
    incarnation = kept.rpartition("-")[2][:8]
    names = [f"c0/t.E-1-O-{offset}-{incarnation}" + "0" * 24 for offset in range(7)]
    store.objects.objects |= {name: bytearray(b"lost") for name in names}
    assert await store.owner(2).garbage.collect_orphans() == 7
    assert set(store.objects.objects) == {kept}


async def test_a_leftover_that_cannot_be_deleted_keeps_no_other():
    store = Store()
    await store.owner(1).write("s", 0, [b"kept"], create=True)
    (kept,) = store.objects.objects
    incarnation = kept.rpartition("-")[2][:8]
    left = [f"c0/t.E-1-O-{offset:x}-{incarnation}" + "0" * 24 for offset in range(7)]
    store.objects.objects |= {name: bytearray(b"lost") for name in left}
    stuck = left[3]
    store.provider.inject = lambda call: Fault.FAIL if call.name == stuck else None
    new = store.owner(2)
    await new.garbage.collect_orphans()
    await new.garbage.collect()  # as far as the one that is stuck
    await new.garbage.collect()
    assert set(store.objects.objects) == {kept, stuck}
    store.provider.inject = lambda _: None
    await new.garbage.collect()
    assert set(store.objects.objects) == {kept}


async def test_metadata_that_begins_anew_touches_no_object_it_finds():
    store = Store()
    await store.owner(7).write("s", 0, [b"precious"], create=True)
    found = dict(store.objects.objects)
    store.rows = FaultyRowStore(MemoryRowStore())
    fresh = store.owner(9)
    await fresh.garbage.collect_orphans()
    await fresh.write("s", 0, [b"new"], create=True)
    again = store.owner(10)
    await again.garbage.collect_orphans()
    await again.garbage.collect()
    assert found.items() <= store.objects.objects.items()


# ---------------------------------------------------------------------------------- failures


async def test_a_failed_write_changes_nothing_and_its_chunk_gets_no_more_bytes():
    store = Store()
    storage = store.owner(1)
    await storage.write("s", 0, [b"abc"], create=True)
    for fault in (Fault.FAIL, Fault.TEAR, Fault.LOSE_REPLY):
        store.provider.inject = lambda _, fault=fault: fault
        length = storage.info_nowait("s").length
        with pytest.raises(StorageWriteError):
            await storage.write("s", length, [b"defg"])
        assert storage.info_nowait("s").length == length
        store.provider.inject = lambda _: None
        await storage.write("s", length, [b"defg"])
    assert await read_all(storage, "s") == b"abcdefgdefgdefg"
    assert len(storage.chunks("s")) == 4
    assert storage.statistics().write_failures == 3


async def test_objects_of_failed_writes_are_deleted_once_their_names_are_out_of_use():
    store = Store()
    storage = store.owner(1)
    store.provider.inject = lambda call: Fault.LOSE_REPLY if call.kind == "create" else None
    for _ in range(3):
        with pytest.raises(StorageWriteError):
            await storage.write("s", 0, [b"x" * 150], create=True)
    assert len(store.objects.objects) == 3
    store.provider.inject = lambda _: None
    await storage.write("s", 0, [b"x" * 150], create=True)
    assert storage.statistics().orphans == 3
    assert await storage.garbage.collect() == 3
    assert len(store.objects.objects) == 2
    assert await read_all(storage, "s") == b"x" * 150


async def test_an_object_whose_commit_may_have_happened_is_kept():
    store = Store()
    storage = store.owner(1)
    await storage.create("other")
    store.rows.inject = lambda call: Fault.LOSE_REPLY if "s/s" in call.name else None
    with pytest.raises(WalWriteError):
        await storage.write("s", 0, [b"x"], create=True)
    await storage.garbage.collect()
    assert await read_all(storage, "s") == b"x"
    assert await read_all(store.owner(2), "s") == b"x"


async def test_a_full_store_refuses_and_the_same_chunk_goes_on_later():
    store = Store()
    storage = store.owner(1)
    await storage.write("s", 0, [b"abc"], create=True)
    store.provider.inject = lambda _: Fault.FULL
    with pytest.raises(StorageFullError):
        await storage.write("s", 3, [b"def"])
    store.provider.inject = lambda _: None
    await storage.write("s", 3, [b"def"])
    assert len(storage.chunks("s")) == 1
    assert await read_all(storage, "s") == b"abcdef"


@pytest.mark.slow
async def test_bytes_in_front_of_what_cannot_be_read_are_read():
    store = Store()
    storage = store.owner(1)
    content = bytes(range(250))
    await storage.write("s", 0, [content], create=True)
    chunks = [store.objects.objects[chunk.name] for chunk in storage.chunks("s")]
    for bad in range(0, 250, 5):
        chunks[bad // 100][bad % 100] ^= 1
        block = bad - bad % 100 % 8
        for offset in range(0, 250, 3):
            if block <= offset < block + 8 and offset // 100 == bad // 100:
                with pytest.raises(ChecksumMismatchError):
                    await storage.read_some("s", offset, 250 - offset)
                continue
            data = await storage.read_some("s", offset, 250 - offset)
            assert 0 < len(data) <= (block if offset < block else 250) - offset
            assert data == content[offset : offset + len(data)]
        chunks[bad // 100][bad % 100] ^= 1


def test_a_store_too_slow_for_a_whole_range_answers_with_its_beginning():
    async def scenario(_):
        store = Store()
        storage = store.owner(1)
        content = bytes(range(250))
        await storage.write("s", 0, [content], create=True)

        class Slow(ChunkProviderWrapper):
            async def read(self, name, offset, length):
                await asyncio.sleep(length / 4)  # a block takes two seconds, a chunk 25
                return await super().read(name, offset, length)

        store.provider = Slow(store.objects)
        storage = store.owner(2)
        loop = asyncio.get_running_loop()
        found = b""
        while len(found) < 250:
            begun = loop.time()
            found += await storage.read_some("s", len(found), 250 - len(found))
            assert loop.time() - begun < 30
        assert found == content
        assert await storage.read_stored("s", 0, 250) == content

    simulate(0, scenario)


async def test_a_failed_read_is_an_error_to_be_retried():
    store = Store()
    storage = store.owner(1)
    await storage.write("s", 0, [b"x" * 250], create=True)
    store.provider.on_read = fail_reads
    with pytest.raises(StorageReadError):
        await storage.read_stored("s", 0, 250)


async def test_a_commit_refused_because_the_container_ends_leaves_the_layout_alone():
    store = Store()
    storage = store.owner(1)
    await storage.write("s", 0, [b"abc"], create=True)

    async def refuse(_):
        raise ContainerOfflineError

    commit, store.rows.commit = store.rows.commit, refuse
    with pytest.raises(ContainerOfflineError):
        await storage.write("s", 3, [b"def"])
    assert storage.info_nowait("s").length == 3
    store.rows.commit = commit
    await storage.write("s", 3, [b"ghi"])
    assert await read_all(storage, "s") == b"abcghi"


def test_a_store_that_does_not_answer_is_given_up_on():
    async def scenario(_):
        store = Store()
        storage = store.owner(1)
        await storage.write("s", 0, [b"abc"], create=True)
        store.provider.inject = lambda _: Fault.HANG
        with pytest.raises(StorageWriteError):
            await storage.write("s", 3, [b"def"])
        store.provider.inject = lambda _: None
        store.provider.delay_s = lambda _: 1e6
        with pytest.raises(StorageReadError):
            await storage.read_stored("s", 0, 3)

    simulate(0, scenario, limit_s=300)


# ---------------------------------------------------------------------------------- concurrency


def test_writes_of_one_segment_happen_in_order_and_of_several_at_once():
    async def scenario(sim):
        store = Store()
        storage = store.owner(1)
        store.provider.delay_s = lambda _: 1.0
        before = sim.loop.time()
        await asyncio.gather(
            *(
                storage.write(f"s{number}", offset, [b"%d" % offset], create=True)
                for offset in range(3)
                for number in range(50)
            )
        )
        assert sim.loop.time() - before < 4.0
        for number in range(50):
            assert await read_all(storage, f"s{number}") == b"012"
        assert storage.statistics().segments_busy == 0

    simulate(0, scenario, shuffle=False)


def test_a_reader_sees_the_segment_as_it_was_whatever_happens_to_it_meanwhile():
    async def scenario(sim):
        entropy = SeededEntropy(sim.seed)
        store = Store()
        storage = store.owner(1)
        content = entropy.token(600)
        await storage.write("s", 0, [content[:300]], create=True)
        store.provider.delay_s = lambda _: entropy.random()
        reads = 0

        async def read():
            nonlocal reads
            while True:
                info = storage.info_nowait("s")
                if info is None:
                    return
                try:
                    data = await storage.read_stored("s", info.start_offset, info.length - info.start_offset)
                except (SegmentTruncatedError, NoSuchSegmentError):
                    continue
                assert data == content[info.start_offset : info.length]
                reads += 1

        readers = [asyncio.ensure_future(read()) for _ in range(5)]
        for offset in range(300, 600, 50):
            await storage.write("s", offset, [content[offset : offset + 50]])
            await storage.truncate("s", offset - 150)
            await storage.garbage.collect()
        await storage.seal("s")
        await storage.delete("s")
        await collect_all(storage)
        await asyncio.gather(*readers)
        assert reads > 5
        assert not store.objects.objects

    for seed in range(5):
        simulate(seed, scenario)


# ---------------------------------------------------------------------------------- garbage


def test_objects_outlive_their_metadata_by_the_delay():
    async def scenario(_):
        store = Store()
        config = SegmentStorageConfig(rollover_bytes=100, block_bytes=8, garbage_delay_s=60.0)
        storage = store.owner(1, config)
        await storage.write("s", 0, [b"x" * 250], create=True)
        await storage.delete("s")
        assert storage.statistics().garbage_runs == 1
        await asyncio.sleep(59.0)
        assert await storage.garbage.collect() == 0
        await asyncio.sleep(2.0)
        assert await storage.garbage.collect() == 3
        assert not store.objects.objects
        assert set(store.rows.rows.rows) == {"i", "n"}

    simulate(0, scenario)


def test_an_object_that_cannot_be_deleted_holds_up_no_other():
    async def scenario(_):
        store = Store()
        storage = store.owner(1)
        for name in ("bad", "good"):
            await storage.write(name, 0, [b"x" * 250], create=True)
            await storage.delete(name)
        store.provider.inject = lambda call: Fault.FAIL if call.name.startswith("c0/bad") else None
        await storage.garbage.collect()
        assert {name[3:6] for name in store.objects.objects} == {"bad"}
        assert storage.statistics().garbage_runs == 1
        store.provider.inject = lambda _: None
        assert await storage.garbage.collect() == 0
        await asyncio.sleep(CONFIG.garbage_retry_s + 1)
        assert await storage.garbage.collect() == 3
        assert not store.objects.objects

    simulate(0, scenario)


async def test_when_too_much_garbage_waits_truncation_copying_and_deletion_wait_too():
    store = Store()
    config = SegmentStorageConfig(
        rollover_bytes=100, block_bytes=8, garbage_delay_s=0, garbage_runs_max=2, garbage_retry_s=0
    )
    storage = store.owner(1, config)
    await storage.write("s", 0, [b"x" * 950], create=True)
    await storage.write("t", 0, [b"small"], create=True)
    await storage.seal("t")
    store.provider.inject = lambda call: Fault.FAIL if call.kind == "delete" else None
    await storage.truncate("s", 100)
    await storage.truncate("s", 200)
    calls = len(store.provider.calls)
    for call in (storage.truncate("s", 300), storage.concat("s", 950, "t"), storage.delete("s")):
        with pytest.raises(ThrottledError):
            await call
    assert len(store.provider.calls) == calls, "before anything is written"
    assert (storage.info_nowait("s").start_offset, storage.info_nowait("s").length) == (200, 950)
    store.provider.inject = lambda _: None
    await collect_all(storage)
    await storage.concat("s", 950, "t")
    await collect_all(storage)
    await storage.delete("s")
    await collect_all(storage)
    assert not store.objects.objects


@pytest.mark.slow
async def test_thousands_of_chunks_go_in_batches_and_a_new_owner_finishes():
    store = Store()
    config = SegmentStorageConfig(rollover_bytes=8, block_bytes=8, garbage_delay_s=0)
    storage = store.owner(1, config)
    await storage.write("s", 0, [b"x" * 16_000], create=True)
    assert len(storage.chunks("s")) == 2_000
    await storage.delete("s")
    assert len(store.rows.rows.keys("g/")) == 1
    assert await storage.garbage.collect(600) == 600
    assert len(store.objects.objects) == 1400
    new = store.owner(2, config)
    await collect_all(new)
    assert not store.objects.objects
    assert set(store.rows.rows.rows) == {"i", "n"}


async def test_layouts_beyond_the_bound_are_built_again_from_their_rows():
    store = Store()
    storage = store.owner(1, SegmentStorageConfig(block_bytes=8, layouts_max=3))
    for number in range(20):
        await storage.write(f"s{number}", 0, [b"%d" % number], create=True)
    assert storage.statistics().layouts == 3
    for number in range(20):
        assert await read_all(storage, f"s{number}") == b"%d" % number


# ---------------------------------------------------------------------------------- contradictions in rows


@pytest.mark.parametrize("damage", ["loop", "short", "long"])
async def test_rows_that_contradict_each_other_are_corruption(damage):
    store = Store()
    storage = store.owner(1)
    await storage.write("s", 0, [b"x" * 250], create=True)
    rows = store.rows.rows.rows
    first, second, last = (f"c/{chunk.name}" for chunk in storage.chunks("s"))
    match damage:
        case "loop":
            rows[last] = rows[first]
        case "short":
            rows[first] = rows[last]
        case "long":
            rows[last] = rows[second]
    with pytest.raises(DataCorruptionError):
        await store.owner(2).read_stored("s", 0, 250)


class ForgettingRows(MemoryRowStore):
    """A commit that is refused; meanwhile another segment takes the place of this one's layout in memory."""

    refuses = False

    async def commit(self, changes):
        if self.refuses:
            self.refuses = False
            self.storage.info_nowait("b")
            raise ThrottledError("too many requests wait: nothing happened")
        await super().commit(changes)


async def test_what_was_written_for_a_refused_commit_is_deleted():
    """The next attempt writes other objects, and a store that is refused again and again would fill up."""
    provider, rows = FaultyChunkProvider(MemoryChunkProvider()), ForgettingRows()
    config = dataclasses.replace(CONFIG, rollover_bytes=100, concat_copy_bytes_max=1000)
    rows.storage = storage = ChunkedSegmentStorage(provider, rows, 1, SeededEntropy(1), config)
    await storage.create("b")
    await storage.write("a", 0, [b"first"], create=True)
    await storage.write("source", 0, [b"s" * 250], create=True)
    await storage.seal("source")
    for _ in range(5):
        rows.refuses = True
        with pytest.raises(ThrottledError):
            await storage.write("a", 5, [b"x" * 500])
        rows.refuses = True
        with pytest.raises(ThrottledError):
            await storage.concat("a", 5, "source")
    await storage.write("a", 5, [b"second"])
    await storage.concat("a", 11, "source")
    await collect_all(storage)
    named = {chunk.name for segment in ("a", "b") for chunk in storage.chunks(segment)}
    assert {found.name async for page in provider.list() for found in page} == named
    assert await read_all(storage, "a") == b"firstsecond" + b"s" * 250


async def test_a_chunk_that_may_be_longer_than_committed_never_grows_whatever_left_memory():
    """A write that hangs may still happen: behind it, or into bytes that are committed by then."""
    provider, rows = FaultyChunkProvider(MemoryChunkProvider()), ForgettingRows()
    config = dataclasses.replace(CONFIG, rollover_bytes=4096, layouts_max=1)
    rows.storage = storage = ChunkedSegmentStorage(provider, rows, 1, SeededEntropy(1), config)
    await storage.create("b")
    await storage.write("a", 0, [b"first"], create=True)
    chunk = storage.chunks("a")[0].name
    provider.inject = lambda call: Fault.FAIL if call.kind == "append" else None
    with pytest.raises(StorageWriteError):
        await storage.write("a", 5, [b"second"])
    provider.inject = lambda _: None
    rows.refuses = True
    with pytest.raises(ThrottledError):
        await storage.write("a", 5, [b"second"])
    await storage.write("a", 5, [b"second"])
    assert [found.name == chunk for found in storage.chunks("a")] == [True, False]
    assert await read_all(storage, "a") == b"firstsecond"


async def test_a_round_of_collection_ends_even_if_what_cannot_be_deleted_is_due_at_once():
    store = Store()
    storage = store.owner(1, dataclasses.replace(CONFIG, garbage_retry_s=0.0))
    await storage.write("s", 0, [b"x"], create=True)
    await storage.delete("s")
    store.provider.inject = lambda call: Fault.FAIL if call.kind == "delete" else None
    async with asyncio.timeout(60):
        assert await storage.garbage.collect() == 0
    store.provider.inject = lambda _: None
    assert await storage.garbage.collect() == 1
