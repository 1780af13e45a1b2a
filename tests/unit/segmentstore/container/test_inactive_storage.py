"""What storage knows about a segment leaves memory with it, comes back with it, and is never lost."""

import asyncio
import dataclasses

import pytest

from headrace.errors import DataCorruptionError
from headrace.limits import KIB
from headrace.model.attributes import ROLLOVER_SIZE
from headrace.segmentstore.container.catalogue_row import ROW_BYTES_MAX, encode_row
from headrace.segmentstore.container.evictable_rows import find_evictable_rows
from headrace.segmentstore.container.inactive_chunks import InactiveChunks
from headrace.segmentstore.operations import catalogue as ops
from headrace.segmentstore.state import transitions
from headrace.segmentstore.state.container_state import ContainerState
from headrace.segmentstore.state.metadata_checkpoint import CheckpointSnapshot, encode_segment_row
from headrace.segmentstore.state.segment_state import SegmentState
from headrace.storage.chunks.chunk_names import chunk_name
from headrace.storage.chunks.config import SegmentStorageConfig
from headrace.storage.metadata.rows import CHUNK_PREFIX, INCARNATION_KEY
from tests.unit.segmentstore.container.container_bench import Bench, append, read_all, until
from tests.unit.segmentstore.container.test_eviction_recovery import KeepingWal

A, B = "s/a", "s/b"


@pytest.fixture
async def bench():
    bench = Bench()
    await bench.start()
    yield bench
    if bench.container is not None:
        bench.container.check()
        await bench.stop()


def rows_of(container, name):
    """The rows in memory of a segment of that name, which all agree about."""
    durable, accepted = (
        {key: row for key, row in rows.items() if key[2:].startswith(f"{name}.")}
        for rows in (container.state.storage_rows, container.state.accepted_storage_rows)
    )
    assert durable == accepted
    return durable


async def fill(container, *names):
    for name in names:
        await container.create(name, {})
        await append(container, name, name.encode())
    await container.flush_storage()


async def test_storage_knows_nothing_of_a_segment_that_left_and_everything_when_it_is_back(bench):
    container = bench.container
    await fill(container, A, B)
    known = rows_of(container, A)
    assert len(known) == 2, "a segment and a chunk"
    stored = container.state.by_name[A].storage_name
    await bench.evict(A)
    assert not rows_of(container, A)
    assert container.tiers.storage.info(stored) is None
    assert not any("s/a" in key for key, _ in CheckpointSnapshot(container.state).storage_rows)
    for _ in range(2):
        assert await read_all(container, A) == b"s/a"
        assert rows_of(container, A) == known
        container = await bench.start()
    assert await append(container, A, b"!") == 3
    await container.flush_storage()
    assert await read_all(container, A) == b"s/a!"


async def test_what_left_is_not_in_the_checkpoints_that_follow_and_is_found_after_them(bench):
    container = bench.container
    await fill(container, A, B)
    await bench.evict(A, B)
    for _ in range(2):
        await container.log.write_checkpoint()
        container = await bench.start()
        assert not rows_of(container, A)
    assert await read_all(container, A) == b"s/a"
    await bench.evict(A)
    container = await bench.start()
    await container.delete(await container.resolve(B))
    await bench.evict()
    assert not any(key.startswith("s/") for key in rows_of(container, B)), "all that may be left is garbage"
    assert await read_all(container, A) == b"s/a"


async def test_chunks_of_inactive_segments_are_not_left_over(bench):
    container = bench.container
    await fill(container, A, B)
    incarnation = container.tiers.storage._incarnation.name
    await bench.evict(A, B)
    of_nobody = chunk_name("s/gone.99", 1, 0, incarnation, bytes(12))
    await bench.chunks.create(of_nobody, [memoryview(b"x")])
    container = await bench.start()
    await container.tiers.storage.collect_orphans()
    assert of_nobody not in {found.name async for page in bench.chunks.list() for found in page}
    for name in (A, B):
        assert await read_all(container, name) == name.encode()


async def test_more_chunks_of_inactive_segments_than_are_remembered_hide_nothing_that_is_left_over(
    bench, monkeypatch
):
    monkeypatch.setattr("headrace.storage.chunks.garbage_collector._LISTED_MAX", 3)
    container = bench.container
    inactive = [f"s/a{number}" for number in range(5)]
    await fill(container, *inactive)
    incarnation = container.tiers.storage._incarnation.name
    await bench.evict(*inactive)
    await container.flush_storage()  # the next owner may fence it in the middle, and count that chunk as well
    leftovers = {chunk_name("s/gone.99", 1, offset, incarnation, bytes(12)) for offset in range(5)}
    for name in leftovers:
        await bench.chunks.create(name, [memoryview(b"x")])
    container = await bench.start()
    assert await container.tiers.storage.collect_orphans() == 5
    assert not {found.name async for page in bench.chunks.list() for found in page} & leftovers
    for name in inactive:
        assert await read_all(container, name) == name.encode()


async def test_what_carries_the_name_of_an_inactive_segment_is_kept_until_that_is_active_or_gone(bench):
    container = bench.container
    await fill(container, A, B)
    incarnation = container.tiers.storage._incarnation.name
    names = [container.state.by_name[name].storage_name for name in (A, B)]
    await bench.evict(A, B)
    chunks = [chunk_name(name, 1, 3, incarnation, bytes(12)) for name in (*names, "s/gone.99", "s/a.x")]
    container = await bench.start()
    archived = InactiveChunks(container._catalogue, container.state)
    assert await archived.find_chunks([*chunks, "no chunk"]) == {*chunks[:2]}
    await container.resolve(A)
    await container.delete(await container.resolve(B))
    await bench.evict()
    await until(lambda: not container.state.retired)
    assert await archived.find_chunks(chunks) == {chunks[0]}, "inactive again"
    await container.resolve(A)
    assert await archived.find_chunks(chunks) == set()


async def test_nothing_is_left_over_of_a_segment_while_the_catalogue_cannot_be_read(bench, monkeypatch):
    container = bench.container
    await fill(container, A)
    await bench.evict(A)
    container = await bench.start()

    async def read_damage(*_args):
        raise DataCorruptionError("damaged")

    with monkeypatch.context() as patch:
        patch.setattr(container.tables, "table_get", read_damage)
        await container.tiers.storage.collect_orphans()
    assert await read_all(container, A) == b"s/a"


@pytest.mark.slow
@pytest.mark.parametrize("stays", [True, False])
async def test_nothing_is_left_over_of_a_segment_that_comes_and_goes_while_it_is_looked_for(bench, stays):
    """In each state in which it can be found, also between what is accepted and what is durable."""
    bench.config = dataclasses.replace(
        bench.config, storage=SegmentStorageConfig(rollover_bytes=1, block_bytes=1)
    )
    container = await bench.start()
    await container.create(A, {})
    await append(container, A, bytes(20))
    await container.flush_storage()
    await bench.evict(A)
    if stays:
        container.evictions._row_bytes_max = 1 * KIB  # so its rows stay in memory when it leaves
    archived = InactiveChunks(container._catalogue, container.state)
    chunks = [found.name async for page in bench.chunks.list() for found in page]
    chunks = [name for name in chunks if "s/a" in name]
    assert len(chunks) == 20
    done = False

    async def look():
        while not done:
            assert await archived.find_chunks(chunks) == {*chunks}
            await asyncio.sleep(0)

    looking = asyncio.ensure_future(look())
    for _ in range(5):
        await container.resolve(A)
        await bench.evict(A)
    done = True
    await looking


async def test_a_segment_with_chunks_of_others_leaves_and_its_rows_stay(bench):
    bench.config = dataclasses.replace(bench.config, storage=SegmentStorageConfig(concat_copy_bytes_max=0))
    container = await bench.start()
    await fill(container, A, B)
    await container.merge(await container.resolve(A), B)
    await bench.evict(A)
    assert any(key.startswith(f"{CHUNK_PREFIX}s/b.") for key in container.state.storage_rows)
    container = await bench.start()
    await container.tiers.storage.collect_orphans()
    assert await read_all(container, A) == b"s/as/b"
    await bench.evict(A)


async def test_a_segment_with_very_many_chunks_leaves_and_its_rows_stay(bench):
    bench.config = dataclasses.replace(
        bench.config, storage=SegmentStorageConfig(rollover_bytes=1, block_bytes=1)
    )
    container = await bench.start()
    await container.create(A, {})
    await append(container, A, bytes(500))
    await container.flush_storage()
    known = rows_of(container, A)
    assert sum(map(len, known)) + sum(map(len, known.values())) > ROW_BYTES_MAX
    await bench.evict(A)
    assert rows_of(container, A) == known
    container = await bench.start()
    assert await read_all(container, A) == bytes(500)


class CountedRows(dict):
    """Rows of storage that tell how many of chunks were looked at."""

    looked_at = 0

    def get(self, key, default=None):
        self.looked_at += key.startswith(CHUNK_PREFIX)
        return super().get(key, default)


@pytest.mark.slow
async def test_a_segment_of_very_many_chunks_leaves_and_comes_back_without_a_look_at_them(bench):
    await bench.stop()
    bench.config = dataclasses.replace(
        bench.config, storage=SegmentStorageConfig(rollover_bytes=1, block_bytes=1)
    )
    container = await bench.start()
    await container.create(A, {})
    await append(container, A, bytes(1500))
    await container.flush_storage()
    known = rows_of(container, A)
    assert len(known) == 1501
    container.state.storage_rows = rows = CountedRows(container.state.storage_rows)
    await bench.evict(A)
    assert A not in container.state.by_name
    assert rows_of(container, A) == known
    assert rows.looked_at <= 8, "two for each time that storage is asked how long it is"
    state = await container.resolve(A)
    assert len(state.catalogue_row) < 1000
    assert rows.looked_at <= 16
    assert await append(container, A, b"!") == 1500
    await container.flush_storage()
    assert rows.looked_at <= 32
    assert await read_all(container, A) == bytes(1500) + b"!"


@pytest.mark.parametrize("chunks_of_others", [False, True])
async def test_segments_of_many_chunks_leave_without_holding_up_the_loop(bench, chunks_of_others):
    bench.config = dataclasses.replace(
        bench.config, storage=SegmentStorageConfig(block_bytes=32, concat_copy_bytes_max=0)
    )
    container = await bench.start()
    names = [f"s/many{number}" for number in range(6)]
    for name in names:
        await container.create(name, {ROLLOVER_SIZE: 32})
        await append(container, name, bytes(32 * (150 - chunks_of_others)))
        if chunks_of_others:
            await fill(container, f"{name}#1")
            await container.merge(await container.resolve(name), f"{name}#1")
    await container.flush_storage()
    container.state.storage_rows = rows = CountedRows(container.state.storage_rows)
    most = 0

    async def watch():
        nonlocal most
        while True:
            most = max(most, rows.looked_at)
            rows.looked_at = 0
            await asyncio.sleep(0)

    watching = asyncio.ensure_future(watch())
    await bench.evict(*names)
    watching.cancel()
    assert 300 <= most < 2000, "two looks at each row of a few segments, and one at those of a portion"


async def test_what_stays_anyway_is_not_looked_at_to_its_end(bench):
    bench.config = dataclasses.replace(
        bench.config,
        storage=SegmentStorageConfig(rollover_bytes=1, block_bytes=1, concat_copy_bytes_max=0),
    )
    container = await bench.start()
    await fill(container, f"{B}#1")
    for name in (A, B):
        await container.create(name, {})
    await append(container, A, bytes(900))
    await container.merge(await container.resolve(B), f"{B}#1")
    await append(container, B, bytes(900))
    await container.flush_storage()
    container.state.storage_rows = rows = CountedRows(container.state.storage_rows)
    found = find_evictable_rows(container.state, container.state.by_name[A], ROW_BYTES_MAX)
    assert not found
    assert rows.looked_at < 1200, "two looks at each that would fit"
    rows.looked_at = 0
    found = find_evictable_rows(container.state, container.state.by_name[B], ROW_BYTES_MAX)
    assert not found
    assert rows.looked_at == 2, "the first is not its own"


async def test_rows_that_stayed_in_memory_because_an_older_release_left_them_there_are_used(
    bench, monkeypatch
):
    container = bench.container
    await fill(container, A)
    known = rows_of(container, A)
    with monkeypatch.context() as patch:
        patch.setattr("headrace.segmentstore.container.evictions.find_evictable_rows", lambda *_: {})
        await bench.evict(A)
    assert rows_of(container, A) == known
    container = await bench.start()
    assert await read_all(container, A) == b"s/a"
    assert rows_of(container, A) == known
    await bench.evict(A)
    assert not rows_of(container, A)
    assert await read_all(container, A) == b"s/a"


@pytest.mark.parametrize("work", ["begun", "done"])
async def test_a_segment_that_storage_works_on_while_its_row_is_written_stays(bench, work):
    container = bench.container
    await fill(container, A)
    state = container.state.by_name[A]
    await container.log.write_checkpoint()
    await container.flush_storage()
    await container.evictions.evict()
    put, held = container._catalogue.put, container.tiers.storage._locks.hold(state.storage_name)

    async def put_and_work(rows):
        await put(rows)
        if work == "begun":
            await held.__aenter__()
        else:
            await container.tiers.storage.truncate(state.storage_name, 1)

    container._catalogue.put = put_and_work
    await container.evictions.evict()
    container._catalogue.put = put
    assert not state.evicted
    assert rows_of(container, A)
    if work == "begun":
        await held.__aexit__(None, None, None)
        await bench.evict(A)
        assert await read_all(container, A) == b"s/a"


async def test_a_segment_of_a_log_that_was_never_cut_has_its_rows_when_it_is_back(bench):
    bench.make_wal = KeepingWal
    container = await bench.start()
    await fill(container, A)
    known = rows_of(container, A)
    await bench.evict(A)
    container = await bench.start()
    assert not rows_of(container, A)
    await container.resolve(A)
    assert rows_of(container, A) == known
    await append(container, A, b"!")
    await bench.evict(A)
    for _ in range(2):
        container = await bench.start()
        assert await read_all(container, A) == b"s/a!"


@pytest.mark.slow
async def test_only_the_catalogue_is_left_of_thousands_of_segments_in_storage_rows():
    bench = Bench(active_segments_max=500)
    container = await bench.start()
    names = [f"scope/stream/{n}.#epoch.0" for n in range(3000)]
    for name in names:
        await container.create(name, {})
        await append(container, name, name.encode())
    await bench.evict()
    state = container.state
    assert len(state.by_name) == 1
    assert INCARNATION_KEY in state.storage_rows
    live = [key for key in state.storage_rows if not key.startswith("g/")]
    assert len(live) < 50, live
    container = await bench.start()
    assert container.log.statistics().recovered_operations < 200
    for name in names[::211]:
        assert await read_all(container, name) == name.encode()
    assert not bench.failures
    await bench.stop()


# ------------------------------------------------------------------------------------------ replay


@pytest.fixture
def container():
    container = ContainerState(0, sequence=100)
    container.insert(SegmentState(5, A, accepted_length=10, durable_length=10, stored_length=10))
    container.storage_rows = {"s/s/a.5": b"row"}
    container.accepted_storage_rows = dict(container.storage_rows)
    return container


def test_an_eviction_of_rows_that_are_not_there_is_corruption(container):
    transitions.check_replay(container, ops.EvictSegments(101, [5], [["s/s/a.5"]]))
    with pytest.raises(DataCorruptionError):
        transitions.check_replay(container, ops.EvictSegments(101, [5], [["s/s/a.5", "c/x"]]))


def test_an_activation_of_a_segment_that_stayed_must_agree_about_its_rows(container):
    row = encode_segment_row(SegmentState(5, A, accepted_length=10))
    transitions.check_replay(container, ops.ActivateSegment(101, 5, row, {"s/s/a.5": b"row"}))
    for rows in ({"s/s/a.5": b"other"}, {"s/s/a.5": b"row", "c/x": b""}):
        with pytest.raises(DataCorruptionError):
            transitions.check_replay(container, ops.ActivateSegment(101, 5, row, rows))


def test_rows_leave_and_come_back_first_as_accepted_and_then_as_durable(container):
    before = dict(container.storage_rows)
    row = encode_row(container.by_id[5], before)
    assert row[0] == 2
    leaving = ops.EvictSegments(101, [5], [["s/s/a.5"]])
    transitions.accept(container, leaving)
    assert (container.accepted_storage_rows, container.storage_rows) == ({}, before)
    back = ops.ActivateSegment(102, 5, encode_segment_row(SegmentState(5, A, accepted_length=10)), before)
    transitions.accept(container, back)
    assert (container.accepted_storage_rows, container.storage_rows) == (before, before)
    transitions.apply(container, leaving, 1)
    assert container.storage_rows == {}
    transitions.apply(container, back, 1)
    assert container.storage_rows == before
