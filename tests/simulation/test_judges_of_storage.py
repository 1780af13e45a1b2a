"""The judges of `objects` and `rival_storages` can convict: what storage must never do on an object store."""

import logging

import pytest

from headrace.errors import ChunkExistsError, CorruptionError, StorageWriteError
from headrace.storage.checkpoints.checkpoint_store import CheckpointStore
from headrace.storage.chunks import rewriter
from headrace.storage.chunks.chunk_names import parse_chunk_name
from headrace.storage.chunks.chunk_writer import ChunkWriter
from headrace.storage.chunks.garbage import may_be_orphan
from headrace.storage.chunks.garbage_collector import GarbageCollector
from headrace.storage.chunks.segment_storage import ChunkedSegmentStorage
from headrace.storage.chunks.storage_garbage import StorageGarbage
from headrace.testing.object_store_faults import FaultyObjectStore
from tests.effort import sampled
from tests.simulation.run_seeds import run_one


@pytest.fixture(autouse=True)
def _errors_only():
    logging.getLogger("headrace").setLevel(logging.CRITICAL)
    yield
    logging.getLogger("headrace").setLevel(logging.NOTSET)


def collect_what_a_row_names(monkeypatch):
    monkeypatch.setattr(GarbageCollector, "_find_orphans", _find_all_of_former_owners)


async def _find_all_of_former_owners(_, listed, incarnation, epoch):
    return [name for name in listed if may_be_orphan(name, incarnation=incarnation, container_epoch=epoch)]


def take_the_object_of_a_stranger(monkeypatch):
    honest = FaultyObjectStore.create

    async def create(store, name, buffers=(), beside=None):
        try:
            await honest(store, name, buffers, beside)
        except ChunkExistsError:
            assert name in store.objects

    monkeypatch.setattr(FaultyObjectStore, "create", create)


def commit_before_an_object_is_durable(monkeypatch):
    honest = ChunkWriter._write_piece

    async def write_piece(writer, *rest):
        try:
            await honest(writer, *rest)
        except StorageWriteError:
            return  # it probably happened

    monkeypatch.setattr(ChunkWriter, "_write_piece", write_piece)


def delete_what_a_doubtful_commit_may_have_named(monkeypatch):
    honest = ChunkedSegmentStorage._commit

    async def commit_written(storage, written, rows, *layouts, garbage=None):
        try:
            await honest(storage, rows, *layouts, garbage=garbage)
        except BaseException:
            storage._writer.discard(written)
            raise

    monkeypatch.setattr(ChunkedSegmentStorage, "_commit_written", commit_written)


def collect_what_an_owner_is_writing(monkeypatch):
    def may_be_orphan(name, *, incarnation, container_epoch):
        return (parsed := parse_chunk_name(name)) is not None and parsed.epoch <= container_epoch

    monkeypatch.setattr("headrace.storage.chunks.garbage_collector.may_be_orphan", may_be_orphan)


def leave_what_was_given_up(monkeypatch):
    """The next owner finds it only if it looks; this one looks for nothing."""

    async def collect_orphans(collector, *_):
        return 0

    monkeypatch.setattr(GarbageCollector, "collect_orphans", collect_orphans)


def put_a_copy_over_what_has_changed(monkeypatch):
    def find_stretch(layout, index, stretch):
        if layout.last is None or not layout.first_chunk_start <= stretch.start < layout.length:
            return None
        return index.neighbours(layout, stretch.start, len(stretch.names))

    monkeypatch.setattr(rewriter, "find_stretch", find_stretch)


def collect_what_a_copy_of_the_log_names(monkeypatch):
    monkeypatch.setattr(StorageGarbage, "hold", lambda garbage, first: None)


def copy_a_log_without_its_end(monkeypatch):
    honest = CheckpointStore.write_parts

    async def write_parts(store, checkpoint, records):
        return await honest(store, checkpoint, _without_last(records))

    monkeypatch.setattr(CheckpointStore, "write_parts", write_parts)


async def _without_last(records):
    before = None
    async for some in records:
        if before is not None:
            yield before
        before = some
    if before:
        yield before[:-1]


#: Each with the scenario that has to find it, in how many seeds, and the last seed that did: it goes first.
BUGS = [
    (collect_what_a_row_names, "objects", 12, 0),
    (take_the_object_of_a_stranger, "rival_storages", 40, 4),
    (commit_before_an_object_is_durable, "objects", 12, 0),
    (delete_what_a_doubtful_commit_may_have_named, "rival_storages", 400, 16),
    (collect_what_an_owner_is_writing, "rival_storages", 100, 18),
    (put_a_copy_over_what_has_changed, "rival_storages", 700, 143),
    (collect_what_a_copy_of_the_log_names, "objects", 12, 3),
    (copy_a_log_without_its_end, "objects", 12, 1),
    (leave_what_was_given_up, "rival_storages", 12, 0),
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("plant", "scenario", "seeds", "first"), sampled(BUGS), ids=lambda value: getattr(value, "__name__", "")
)
def test_a_planted_bug_is_found(plant, scenario, seeds, first, monkeypatch):
    plant(monkeypatch)
    for seed in (first, *range(seeds)):
        try:
            run_one(scenario, seed)
        except (AssertionError, CorruptionError):  # of the judge, or the store sees it itself
            return
    pytest.fail(f"{seeds} seeds have not found it")
