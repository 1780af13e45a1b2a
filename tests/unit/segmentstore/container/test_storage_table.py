"""Rows of long-term storage in the table of a container: in memory, in flight, cut off, moved; damage."""

import asyncio
import dataclasses

import pytest

from headrace.errors import StorageReadError, WalWriteError
from headrace.segmentstore.container.rows.moved_rows import move_rows
from headrace.segmentstore.container.rows.row_parts import are_in_log, rows_of_table
from headrace.segmentstore.state.container_state import ContainerState
from headrace.storage.chunks.chunk_names import chunk_name
from headrace.storage.metadata.contract import RowsNotLoadedError
from headrace.storage.metadata.rows import (
    INCARNATION_KEY,
    NUMBERS_KEY,
    GarbageNumbersRow,
    GarbageRow,
    checksum_key,
    chunk_key,
    decode_numbers_row,
    encode_garbage_row,
    garbage_key,
)
from headrace.testing.conformance.row_store import RowStoreContract, read
from headrace.testing.storage_faults import Fault, FaultyChunkProvider
from tests.table_rows import storage_rows_of
from tests.unit.segmentstore.container.container_bench import Bench, HeldWal, append, read_all, until

A, B = "s/a", "s/b"


@pytest.fixture
async def bench():
    bench = Bench()
    bench.config = dataclasses.replace(bench.config, storage_row_cache_bytes=0)
    await bench.start()
    yield bench
    bench.container.check()
    await bench.stop()


class TestTableRowStore(RowStoreContract):
    """The contract, with next to nothing in memory."""

    @pytest.fixture(autouse=True)
    def _give_bench(self, bench):
        self.bench = bench

    async def make(self):
        return self.bench.container.tiers.table_rows

    async def reopen(self, store):
        await self.bench.start()
        return self.bench.container.tiers.table_rows


# ------------------------------------------------------------------------------------------ in memory


async def test_rows_in_memory_are_bounded_and_those_used_last(bench):
    rows = bench.container.tiers.table_rows
    await rows.commit({f"k/{n}": bytes(100) for n in range(2000)})
    assert len(rows) == 256
    assert await read(rows, "k/3") == [bytes(100)]
    assert rows.get("k/3") == bytes(100)
    assert len(rows) == 256
    with pytest.raises(RowsNotLoadedError):
        rows.get("k/4")


async def test_rows_are_as_before_until_their_commit_has_ended(bench, monkeypatch):
    rows = bench.container.tiers.table_rows
    await rows.commit({"in memory": b"old", "elsewhere": b"old"})
    container = await bench.start()
    rows = container.tiers.table_rows
    assert await read(rows, "in memory") == [b"old"]
    change, go_on, changed = container.tables.change, asyncio.Event(), asyncio.Event()

    async def change_late(*args):
        await change(*args)
        changed.set()
        await go_on.wait()

    monkeypatch.setattr(container.tables, "change", change_late)
    committing = asyncio.ensure_future(rows.commit({"in memory": b"new", "elsewhere": b"new", "first": b"1"}))
    await changed.wait()  # the table has them
    assert rows.get("in memory") == b"old"
    loading = asyncio.ensure_future(read(rows, "in memory", "elsewhere", "first"))
    for _ in range(20):
        await asyncio.sleep(0)
    assert not loading.done(), "it would mix two moments"
    go_on.set()
    assert await loading == [b"new", b"new", b"1"]
    await committing


async def test_a_load_that_a_commit_overtakes_leaves_nothing_old_in_memory(bench, monkeypatch):
    await bench.container.tiers.table_rows.commit({"k": b"old"})
    container = await bench.start()
    rows, get, go_on = container.tiers.table_rows, container.tables.get, asyncio.Event()
    found = []

    async def get_late(*args):
        entries = await get(*args)
        found.extend(entry.value for entry in entries)
        await go_on.wait()
        return entries

    with monkeypatch.context() as patch:
        patch.setattr(container.tables, "get", get_late)
        loading = asyncio.ensure_future(rows.load(["k"]))
        await until(lambda: found)
    await rows.commit({"k": b"new"})
    go_on.set()
    await loading
    assert found[0] == b"old"
    assert rows.get("k") == b"new"


async def test_a_commit_whose_caller_is_cancelled_goes_on_and_is_not_taken_for_undone(bench, monkeypatch):
    container = bench.container
    rows, change, go_on = container.tiers.table_rows, container.tables.change, asyncio.Event()
    await rows.commit({"k": b"old"})

    async def change_late(*args):
        await go_on.wait()
        await change(*args)

    monkeypatch.setattr(container.tables, "change", change_late)
    committing = asyncio.ensure_future(rows.commit({"k": b"new"}))
    await asyncio.sleep(0)
    committing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await committing
    assert rows.get("k") == b"old"
    go_on.set()
    await until(lambda: rows.get("k") == b"new")


# ------------------------------------------------------------------------------------------ the log


async def test_a_commit_in_flight_when_a_checkpoint_begins_is_known_after_a_cut_and_a_crash(bench):
    """Neither the append to the table nor the bytes that it stores are in the log any more."""
    bench.make_wal = HeldWal
    container = await bench.start()
    wal = container.tiers._components.wal
    await container.create(A, {})
    await append(container, A, b"stored")
    await container.flush_storage()
    table = await container.resolve(container.tiers.table_rows.name)
    segment = await container.resolve(A)
    await append(container, A, b" in flight")
    wal.held = True
    await until(lambda: table.accepted_length > table.durable_length)
    writing = asyncio.ensure_future(container.log.write_checkpoint())
    for _ in range(10):
        await asyncio.sleep(0)
    assert segment.stored_length == 6
    wal.go_on()
    begin = await writing
    await container.flush_storage()
    assert container.log.truncated_sequence == begin
    for _ in range(2):
        container = await bench.start()
        assert (await container.resolve(A)).stored_length == 16
        assert await read_all(container, A) == b"stored in flight"
        await append(container, A, b"")
    assert await append(container, A, b"!") == 16
    await container.flush_storage()


@pytest.mark.parametrize("bound", [{"unstored_bytes_max": 2000}, {"memory_log_max": 4}])
async def test_rows_are_committed_although_the_container_is_full_of_what_they_would_free(bound):
    bench = Bench()
    bench.chunks = provider = FaultyChunkProvider(bench.chunks)
    bench.config = dataclasses.replace(bench.config, **bound)
    container = await bench.start()
    names = [f"s/{n}" for n in range(8)]
    for name in names:
        await container.create(name, {})
    provider.inject = lambda _: Fault.FAIL
    appends = []
    while not container.log.processor.statistics().requests_queued:
        name = names[len(appends) % len(names)]
        appends.append(asyncio.ensure_future(append(container, name, bytes(100))))
        for _ in range(20):
            await asyncio.sleep(0)
    provider.inject = lambda _: None
    await asyncio.wait_for(asyncio.gather(*appends), 120)
    await asyncio.wait_for(container.flush_storage(), 120)
    assert sum([len(await read_all(container, name)) for name in names]) == 100 * len(appends)
    await bench.stop()


async def test_a_damaged_table_keeps_nothing_from_being_appended_and_nothing_is_lost_once_it_is_mended(bench):
    container = bench.container
    for name in (A, B):
        await container.create(name, {})
        await append(container, name, b"stored")
    await container.flush_storage()
    await container.log.write_checkpoint()
    await container.flush_storage()

    def damage():
        for name, content in bench.chunks.objects.items():
            if "_system/containers/storage_metadata" in name:
                for at in range(0, len(content), 16):
                    content[at] ^= 1

    damage()
    container = await bench.start()
    assert await append(container, A, b" more") == 6
    for _ in range(5000):
        await asyncio.sleep(0)
    assert container.online
    assert not bench.failures
    with pytest.raises(StorageReadError):
        await container.read(await container.resolve(B), 0, 6, wait=False)
    damage()
    await asyncio.wait_for(container.flush_storage(), 120)
    container = await bench.start()
    assert await read_all(container, A) == b"stored more"
    assert await read_all(container, B) == b"stored"


# ------------------------------------------------------------------------------------------ moving


OWN = "_system/containers/metadata_0.4"
OLD = {
    INCARNATION_KEY: b"incarnation",
    f"s/{OWN}": b"own",
    f"c/{OWN}.E-1-O-0.x": b"own",
    garbage_key(3): encode_garbage_row(GarbageRow(f"{OWN}.E-1-O-0.x", 1)),
    garbage_key(7): encode_garbage_row(GarbageRow("s/b.6.E-1-O-0.x", 2)),
} | {f"{kind}/s/{n}.5": b"%d" % n for n in range(2000) for kind in "sc"}


class Rows:
    """A dict that fails at one of its commits, before or after it has happened."""

    def __init__(self, rows, fails):
        self.rows = rows
        self.fails = fails

    async def commit(self, changes):
        assert changes
        fault = next(self.fails, None)
        if fault != "before":
            for key, row in changes.items():
                if row is None:
                    self.rows.pop(key, None)
                else:
                    self.rows[key] = row
        if fault is not None:
            raise WalWriteError(fault)


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["before", "after"])
async def test_old_rows_are_moved_whatever_commit_is_the_last_of_an_owner(fault):
    for failing in range(100):
        state, table = ContainerState(0, storage_rows=dict(OLD)), {}
        fails = iter([None] * failing + [fault])
        try:
            await move_rows(state, Rows(state.storage_rows, fails), Rows(table, fails))
        except WalWriteError:
            assert all(table.get(key, row) == row for key, row in OLD.items())
            await move_rows(state, Rows(state.storage_rows, iter(())), Rows(table, iter(())))
        else:
            break
        assert table == rows_of_table(OLD)
        assert decode_numbers_row(state.storage_rows.pop(NUMBERS_KEY)) == GarbageNumbersRow(3, 8)
        assert state.storage_rows == {key: row for key, row in OLD.items() if key not in table}
        assert len(state.storage_rows) == 4
    assert failing == 5, "the numbers, and twice two batches"


def test_a_commit_has_rows_of_one_kind():
    assert are_in_log([f"s/{OWN}", garbage_key(1)])
    assert not are_in_log(["s/s/a.5", "c/s/a.5.E", garbage_key(1)])
    own, other = (chunk_name(4, name, 1, 0, "0" * 8, bytes(12)) for name in (OWN, f"c4/{OWN}"))
    assert are_in_log([chunk_key(own), checksum_key(own, 3)])
    assert not are_in_log([chunk_key(other), checksum_key(other, 3)])
    assert are_in_log([NUMBERS_KEY])
    with pytest.raises(AssertionError):
        are_in_log([f"s/{OWN}", "s/s/a.5"])


async def test_rows_that_an_older_release_had_in_its_log_are_in_the_table_after_the_start(bench):
    container = bench.container
    await container.create(A, {})
    await append(container, A, b"stored")
    await container.flush_storage()
    rows = await storage_rows_of(container)
    assert rows
    log = container.tiers.storage._rows._rows._log
    await container.tiers.table_rows.commit(dict.fromkeys(rows))
    await log.commit(dict(rows))
    for _ in range(2):
        container = await bench.start()
        assert await storage_rows_of(container) == rows
        assert not rows.keys() & container.state.storage_rows.keys()
        assert await read_all(container, A) == b"stored"
