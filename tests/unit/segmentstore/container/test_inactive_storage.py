"""What storage knows about segments is in a table of the container, whether they are active or not."""

import dataclasses

import pytest

from headrace.errors import DataCorruptionError
from headrace.model.attributes import ROLLOVER_SIZE
from headrace.segmentstore.container.inactive_chunks import InactiveChunks
from headrace.segmentstore.operations import catalogue as ops
from headrace.segmentstore.state import transitions
from headrace.segmentstore.state.container_state import ContainerState
from headrace.segmentstore.state.metadata_checkpoint import CheckpointSnapshot, encode_segment_row
from headrace.segmentstore.state.segment_state import SegmentState
from headrace.storage.chunks.chunk_names import chunk_name
from headrace.storage.chunks.config import SegmentStorageConfig
from headrace.storage.metadata.rows import INCARNATION_KEY, NUMBERS_KEY
from tests.table_rows import storage_rows_of
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


async def rows_of(container, name):
    """The rows of a segment of that name in the table."""
    rows = await storage_rows_of(container)
    return {key: row for key, row in rows.items() if key[2:].removeprefix("c0/").startswith(f"{name}.")}


def check_log_rows(container):
    """Only rows of the container's own segments are in memory and in checkpoints."""
    state = container.state
    assert state.storage_rows == state.accepted_storage_rows == dict(CheckpointSnapshot(state).storage_rows)
    of_others = {
        key for key in state.storage_rows if not key[2:].removeprefix("c0/").startswith("_system/containers/")
    }
    assert {key for key in of_others if not key.startswith("g/")} <= {INCARNATION_KEY, NUMBERS_KEY}


async def fill(container, *names):
    for name in names:
        await container.create(name, {})
        await append(container, name, name.encode())
    await container.flush_storage()


async def test_rows_are_in_the_table_and_stay_there_when_their_segment_leaves_and_is_back(bench):
    container = bench.container
    await fill(container, A, B)
    known = await rows_of(container, A)
    assert len(known) == 2, "a segment and a chunk"
    check_log_rows(container)
    await bench.evict(A)
    assert await rows_of(container, A) == known
    for _ in range(2):
        assert await read_all(container, A) == b"s/a"
        assert await rows_of(container, A) == known
        container = await bench.start()
        check_log_rows(container)
    assert await append(container, A, b"!") == 3
    await container.flush_storage()
    assert await read_all(container, A) == b"s/a!"
    changed = await rows_of(container, A)
    assert changed.keys() > known.keys()
    assert changed != known


async def test_a_deleted_segment_has_no_rows_left(bench):
    container = bench.container
    await fill(container, A, B)
    await bench.evict(A, B)
    await container.delete(await container.resolve(B))
    await bench.evict()
    assert not any(key.startswith("s/") for key in await rows_of(container, B)), (
        "all that may be left is garbage"
    )
    assert await read_all(container, A) == b"s/a"


async def test_chunks_of_inactive_segments_are_not_left_over(bench):
    container = bench.container
    await fill(container, A, B)
    incarnation = container.tiers.storage._incarnation.name
    await bench.evict(A, B)
    of_nobody = chunk_name(container.container_id, "s/gone.99", 1, 0, incarnation, bytes(12))
    await bench.chunks.create(of_nobody, [memoryview(b"x")])
    container = await bench.start()
    await container.tiers.storage.garbage.collect_orphans()
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
    leftovers = {
        chunk_name(container.container_id, "s/gone.99", 1, offset, incarnation, bytes(12))
        for offset in range(5)
    }
    for name in leftovers:
        await bench.chunks.create(name, [memoryview(b"x")])
    container = await bench.start()
    assert await container.tiers.storage.garbage.collect_orphans() == 5
    assert not {found.name async for page in bench.chunks.list() for found in page} & leftovers
    for name in inactive:
        assert await read_all(container, name) == name.encode()


async def test_what_carries_the_name_of_an_inactive_segment_is_kept_until_that_is_active_or_gone(bench):
    container = bench.container
    await fill(container, A, B)
    incarnation = container.tiers.storage._incarnation.name
    names = [container.state.by_name[name].storage_name for name in (A, B)]
    await bench.evict(A, B)
    chunks = [
        chunk_name(container.container_id, name, 1, 3, incarnation, bytes(12))
        for name in (*names, "s/gone.99", "s/a.x")
    ]
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
        patch.setattr(container.tables, "get", read_damage)
        await container.tiers.storage.garbage.collect_orphans()
    assert await read_all(container, A) == b"s/a"


async def test_a_segment_with_chunks_of_others_leaves_and_is_read_when_it_is_back(bench):
    bench.config = dataclasses.replace(bench.config, storage=SegmentStorageConfig(concat_copy_bytes_max=0))
    container = await bench.start()
    await fill(container, A, B)
    await container.merge(await container.resolve(A), B)
    await bench.evict(A)
    container = await bench.start()
    await container.tiers.storage.garbage.collect_orphans()
    assert await read_all(container, A) == b"s/as/b"
    await bench.evict(A)


@pytest.mark.slow
async def test_memory_and_checkpoints_have_none_of_a_segment_of_very_many_chunks(bench):
    bench.config = dataclasses.replace(
        bench.config,
        storage=SegmentStorageConfig(block_bytes=16),
        storage_row_cache_bytes=0,
    )
    container = await bench.start()
    await container.create(A, {ROLLOVER_SIZE: 16})
    await append(container, A, bytes(16 * 1500))
    await container.flush_storage()
    assert len(await rows_of(container, A)) == 1501
    check_log_rows(container)
    assert len(container.tiers.table_rows) <= 256
    await container.log.write_checkpoint()
    await container.flush_storage()
    container = await bench.start()
    assert await append(container, A, b"!") == 16 * 1500
    await container.flush_storage()
    assert container.tiers.table_rows.loaded <= 8, "two for the segment, two for the chunk"
    assert await read_all(container, A) == bytes(16 * 1500) + b"!"
    assert len(container.tiers.table_rows) <= 256
    check_log_rows(container)


async def test_a_segment_that_storage_works_on_while_its_row_is_written_stays(bench):
    container = bench.container
    await fill(container, A)
    state = container.state.by_name[A]
    await container.log.write_checkpoint()
    await container.flush_storage()
    await container.evictions.evict()
    put, held = container._catalogue.put, container.tiers.storage._locks.hold(state.storage_name)

    async def put_and_work(rows):
        await put(rows)
        await held.__aenter__()

    container._catalogue.put = put_and_work
    await container.evictions.evict()
    container._catalogue.put = put
    assert not state.evicted
    await held.__aexit__(None, None, None)
    await bench.evict(A)
    assert await read_all(container, A) == b"s/a"


async def test_a_segment_of_a_log_that_was_never_cut_has_its_rows_when_it_is_back(bench):
    bench.make_wal = KeepingWal
    container = await bench.start()
    await fill(container, A)
    known = await rows_of(container, A)
    await bench.evict(A)
    container = await bench.start()
    await container.resolve(A)
    assert await rows_of(container, A) == known
    await append(container, A, b"!")
    await bench.evict(A)
    for _ in range(2):
        container = await bench.start()
        assert await read_all(container, A) == b"s/a!"


@pytest.mark.slow
async def test_only_the_tables_know_of_hundreds_of_segments_in_storage():
    bench = Bench(active_segments_max=500)
    container = await bench.start()
    names = [f"scope/stream/{n}.#epoch.0" for n in range(1000)]
    for name in names:
        await container.create(name, {})
        await append(container, name, name.encode())
    await bench.evict()
    state = container.state
    assert len(state.by_name) == 2
    check_log_rows(container)
    assert len(state.storage_rows) < 50
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


def test_rows_that_earlier_releases_evicted_are_accepted_first_and_then_durable(
    container,
):
    before = dict(container.storage_rows)
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
