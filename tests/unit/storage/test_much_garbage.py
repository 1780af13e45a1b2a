"""Garbage in quantities: many short runs, chunks with more rows than a commit takes, objects that stay."""

import asyncio

import pytest

from headrace.errors import (
    EventTooLargeError,
    MailboxFullError,
    StorageWriteError,
    ThrottledError,
    WalWriteError,
)
from headrace.runtime.entropy import SeededEntropy
from headrace.storage.chunks.config import SegmentStorageConfig
from headrace.storage.chunks.garbage_numbers import NUMBERS_AT_ONCE
from headrace.storage.chunks.segment_storage import ChunkedSegmentStorage
from headrace.storage.providers.memory import MemoryChunkProvider
from headrace.testing.memory_row_store import MemoryRowStore
from headrace.testing.simulation import simulate
from headrace.testing.storage_faults import Fault, FaultyChunkProvider, FaultyRowStore

ROWS_MAX = 20


class BoundedRows(MemoryRowStore):
    """Rows in a log whose frames hold a commit of ``ROWS_MAX`` rows, and which takes its time."""

    def __init__(self):
        super().__init__()
        self.commits = 0
        self.commit_s = 0.0
        self.bytes_max = 1 << 30

    async def commit(self, changes):
        size = sum(len(key) + len(row or b"") for key, row in changes.items())
        if len(changes) > ROWS_MAX or size > self.bytes_max:
            raise EventTooLargeError(size, self.bytes_max)
        self.commits += 1
        await asyncio.sleep(self.commit_s)
        await super().commit(changes)


class Store:
    def __init__(self):
        self.objects = MemoryChunkProvider()
        self.provider = FaultyChunkProvider(self.objects)
        self.bounded = BoundedRows()
        self.rows = FaultyRowStore(self.bounded)

    def owner(self, epoch, **config):
        settings = SegmentStorageConfig(**{"block_bytes": 1, "garbage_delay_s": 0.0} | config)
        return ChunkedSegmentStorage(self.provider, self.rows, epoch, SeededEntropy(epoch), settings)


@pytest.fixture(autouse=True)
def _small_commits(monkeypatch):
    monkeypatch.setattr("headrace.storage.chunks.garbage_collector._ROWS_MAX", ROWS_MAX)


def test_rows_with_long_names_are_forgotten_in_commits_that_a_small_log_takes():
    async def scenario(_):
        store = Store()
        storage = store.owner(1, commit_bytes_max=5000)
        for number in range(10):
            name = "n" * 900 + str(number)
            await storage.write(name, 0, [bytes(2 * 256)], create=True)
            await storage.delete(name)
        store.bounded.commits, store.bounded.bytes_max = 0, 5000
        assert await storage.garbage.collect() == 10
        assert store.bounded.commits == 6, "five long names in each"
        assert store.bounded.keys("") == ["i", "n"]

    simulate(0, scenario)


@pytest.mark.slow
def test_a_thousand_short_segments_are_forgotten_in_a_few_commits():
    async def scenario(sim):
        store = Store()
        storage = store.owner(1)
        for number in range(1000):
            await storage.write(f"s{number}", 0, [b"x"], create=True)
            await storage.delete(f"s{number}")
        store.bounded.commits, store.bounded.commit_s = 0, 0.01
        began = sim.loop.time()
        assert await storage.garbage.collect() == 1000
        assert store.bounded.commits < 150, "ten runs a commit, not one"
        assert sim.loop.time() - began < 2.0
        assert not store.objects.objects
        assert set(store.bounded.rows) == {"i", "n"}

    simulate(0, scenario)


async def test_one_object_of_many_that_cannot_be_deleted_keeps_only_its_own_run():
    store = Store()
    storage = store.owner(1, garbage_retry_s=0.0)
    for number in range(50):
        await storage.write(f"s{number}", 0, [b"xyz"], create=True)
        await storage.delete(f"s{number}")
    store.provider.inject = lambda call: Fault.FAIL if call.name.startswith("c0/s7.") else None
    assert await storage.garbage.collect() == 49
    assert [name[:6] for name in store.objects.objects] == ["c0/s7."]
    assert len(store.bounded.keys("g/")) == len(store.bounded.keys("c/")) == 1
    store.provider.inject = lambda _: None
    assert await storage.garbage.collect() == 1
    assert set(store.bounded.rows) == {"i", "n"}


async def write_large_chunks(storage, names):
    """Chunks whose checksums alone need more rows than a commit takes; written a little at a time."""
    for name in names:
        for offset in range(0, 12_800, 2560):
            await storage.write(name, offset, [b"x" * 2560], create=True)


async def test_a_chunk_with_more_rows_than_a_commit_takes_is_forgotten_in_several():
    store = Store()
    storage = store.owner(1)
    await write_large_chunks(storage, "ab")
    assert len(store.bounded.keys("k/c0/a")) == 50
    await storage.delete("a")
    await storage.delete("b")
    assert await storage.garbage.collect() == 2
    assert set(store.bounded.rows) == {"i", "n"}
    assert not store.objects.objects


@pytest.mark.slow
@pytest.mark.parametrize("fault", [Fault.FAIL, Fault.LOSE_REPLY])
@pytest.mark.parametrize("failing", range(1, 7))
async def test_the_next_owner_goes_on_where_forgetting_a_large_chunk_ended(fault, failing):
    store = Store()
    storage = store.owner(1)
    await write_large_chunks(storage, "ab")
    await storage.delete("a")
    await storage.delete("b")
    commits = 0

    def fail_one(_):
        nonlocal commits
        commits += 1
        return fault if commits == failing else None

    store.rows.inject = fail_one
    with pytest.raises(WalWriteError):
        await storage.garbage.collect()
    assert commits == failing
    store.rows.inject = lambda _: None
    again = store.owner(2)
    while await again.garbage.collect():
        pass
    assert set(store.bounded.rows) == {"i", "n"}
    assert not store.objects.objects


async def test_leftovers_that_cannot_be_deleted_push_out_no_orphan(monkeypatch):
    monkeypatch.setattr("headrace.storage.chunks.segment_storage.ORPHANS_MAX", 5)
    store = Store()
    await store.owner(1).write("s", 0, [b"kept"], create=True)
    (kept,) = store.objects.objects
    incarnation = kept.rpartition("-")[2][:8]
    left = {f"c0/t.E-1-O-{offset}-{incarnation}" + "0" * 24 for offset in range(20)}
    store.objects.objects |= {name: bytearray(b"lost") for name in left}
    storage = store.owner(2)
    store.provider.inject = lambda call: Fault.LOSE_REPLY if call.kind == "create" else None
    for _ in range(2):
        with pytest.raises(StorageWriteError):
            await storage.write("u", 0, [b"given up"], create=True)
    store.provider.inject = lambda call: Fault.FAIL if call.name in left else None
    assert await storage.garbage.collect_orphans() == 0
    assert storage.statistics().orphans == 5
    while await storage.garbage.collect():
        pass
    assert set(store.objects.objects) == left | {kept}


async def test_orphans_that_cannot_be_deleted_keep_no_others():
    store = Store()
    storage = store.owner(1)
    store.provider.inject = lambda call: Fault.LOSE_REPLY if call.kind == "create" else None
    for number in range(40):
        with pytest.raises(StorageWriteError):
            await storage.write(f"s{number}", 0, [b"given up"], create=True)
    stuck = set(list(store.objects.objects)[:30])
    store.provider.inject = lambda call: Fault.FAIL if call.name in stuck else None
    await storage.garbage.collect()
    assert set(store.objects.objects) == stuck


@pytest.mark.parametrize("error", [MailboxFullError("too many wait"), asyncio.CancelledError()])
async def test_orphans_whose_deletion_is_not_begun_are_not_forgotten(error, monkeypatch):
    store = Store()
    storage = store.owner(1)
    store.provider.inject = lambda call: Fault.LOSE_REPLY if call.kind == "create" else None
    for number in range(10):
        with pytest.raises(StorageWriteError):
            await storage.write(f"s{number}", 0, [b"given up"], create=True)
    store.provider.inject = lambda _: None

    async def refuse(_):
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(store.provider, "delete", refuse)
        with pytest.raises(type(error)):
            await storage.garbage.collect()
    assert storage.statistics().orphans == 10
    assert await storage.garbage.collect() == 10
    assert not store.objects.objects


async def test_what_was_forgotten_before_a_commit_is_refused_counts_as_deleted(monkeypatch):
    store = Store()
    storage = store.owner(1)
    for number in range(20):
        await storage.write(f"s{number}", 0, [b"x"], create=True)
        await storage.delete(f"s{number}")
    commit, commits, told = store.bounded.commit, 0, []

    async def refuse_the_second(changes):
        nonlocal commits
        commits += 1
        if commits == 2:
            raise ThrottledError("too many requests wait")
        await commit(changes)

    monkeypatch.setattr(store.bounded, "commit", refuse_the_second)
    monkeypatch.setattr(storage._collector, "_on_deleted", told.extend)
    with pytest.raises(ThrottledError):
        await storage.garbage.collect()
    left = len(store.bounded.keys("g/"))
    assert 0 < left < 20
    assert len(told) == storage.statistics().objects_deleted == 20 - left
    await storage.garbage.collect()
    assert len(told) == len(set(told)) == storage.statistics().objects_deleted == 20
    assert set(store.bounded.rows) == {"i", "n"}


def test_garbage_of_an_earlier_owner_is_looked_at_when_it_is_deleted_not_at_the_first_commit():
    async def scenario(_):
        store = Store()
        storage = store.owner(1)
        for number in range(500):
            await storage.write(f"s{number}", 0, [b"x"], create=True)
            await storage.delete(f"s{number}")
        rows, get, looked_at = store.bounded.rows, store.bounded.get, []
        damaged = [f"g/{number:016x}" for number in range(100)]
        for key in damaged:
            rows[key] = rows[key][:-1] + bytes([rows[key][-1] ^ 1])

        def look(key):
            if key.startswith("g/"):
                looked_at.append(key)
            return get(key)

        store.bounded.get = look
        storage = store.owner(2, garbage_batch_chunks=30)
        await storage.write("new", 0, [b"y"], create=True)
        await storage.delete("new")
        assert not looked_at, "a hundred thousand would take half a second"
        assert "g/0000000000000200" in rows, "its number is a new one"
        assert await storage.garbage.collect(50) == 50
        assert len(looked_at) < 100 + 50, "as many as are needed"
        assert looked_at == [f"g/{number:016x}" for number in range(len(looked_at))], "oldest first"
        assert await storage.garbage.collect() == 351
        assert store.bounded.keys("g/") == damaged
        assert storage.statistics().garbage_runs_damaged == 100

    simulate(0, scenario)


async def test_the_next_owner_finds_garbage_whose_commit_was_in_flight_as_more_numbers_were_taken(
    monkeypatch,
):
    store = Store()
    storage = store.owner(1)
    for number in range(NUMBERS_AT_ONCE - 1):
        await storage.write(f"s{number}", 0, [b"x"], create=True)
        await storage.delete(f"s{number}")
    while await storage.garbage.collect():
        pass
    for name in ("last", "first"):
        await storage.write(name, 0, [b"x"], create=True)
    commit, began, going_on = store.bounded.commit, asyncio.Event(), asyncio.Event()

    async def hold(changes):
        if "s/last" in changes:
            began.set()
            await going_on.wait()
        await commit(changes)

    monkeypatch.setattr(store.bounded, "commit", hold)
    deleting = asyncio.ensure_future(storage.delete("last"))
    await began.wait()
    more = asyncio.ensure_future(storage.delete("first"))
    for _ in range(10):
        await asyncio.sleep(0)
    going_on.set()
    await asyncio.gather(deleting, more)
    storage = store.owner(2)
    while await storage.garbage.collect():
        pass
    assert not store.objects.objects
