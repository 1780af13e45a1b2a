"""A system whose log moves: what directory and bucket remember, what is refused before anything changes."""

import asyncio
import json
import shutil
from dataclasses import replace

import pytest

from headrace.cluster.facts_node import Facts
from headrace.coordination.memory import MemoryCoordinator
from headrace.data_directory.birth_of_cluster import facts_of_directory, found_cluster
from headrace.data_directory.log_place import place_of
from headrace.data_directory.record import raise_format
from headrace.data_directory.shared_directory import take_shared_directory
from headrace.data_directory.taken_directory import take_directory
from headrace.errors import (
    DataCorruptionError,
    DirectoryLockedError,
    InvalidArgumentError,
    PreconditionError,
    UnsupportedError,
)
from headrace.processes.config import SegmentStoreConfig
from headrace.processes.store_server import SegmentStoreServer
from headrace.repair.log_copy.move import LogMove, note_move
from headrace.runtime.context import system_runtime
from headrace.runtime.directory_lock import DirectoryLock
from headrace.segmentstore.inspection.container_replay import replay_container
from headrace.wal.stores import find_logs
from tests.stores.small_s3 import beside
from tests.unit.data_directory.test_log_place import Choice, bucket

pytestmark = [pytest.mark.real_loop, pytest.mark.slow]


@pytest.fixture(scope="module")
def used(tmp_path_factory):
    """A directory that a server has used, whose one event is in its log alone."""
    directory = tmp_path_factory.mktemp("used") / "data"
    asyncio.run(serve(directory, write=True))
    return directory


@pytest.fixture
def data(used, tmp_path):
    return shutil.copytree(used, tmp_path / "data")


@pytest.fixture
def s3():
    with beside() as store:
        yield store


async def serve(directory, *, write):
    """Start a server on a directory, and write an event; return how long its segment is."""
    config = SegmentStoreConfig(data_dir=str(directory), containers=2, segmentstore_port=0, rest_port=0)
    server = SegmentStoreServer(config)
    await server.start()
    try:
        container = min(server.store.wired.registry.running(), key=lambda each: each.container_id)
        if write:
            await container.append(await container.create("s/t", {}), b"event")
        return container.find_nowait("s/t").durable_length
    finally:
        await server.stop()


def length(directory):
    """Return how long the segment is for a server that starts on the directory."""
    return asyncio.run(serve(directory, write=False))


def take(directory, log, storage=None):
    return take_directory(Choice(str(directory), log, storage, containers=2), system_runtime())


def move(source, target):
    source = source if isinstance(source, Facts) else str(source)
    with asyncio.Runner() as runner:
        return LogMove(source, str(target), system_runtime(), runner.run).run()


def record(directory):
    return json.loads((directory / "headrace.json").read_text())


def test_a_log_moves_from_files_to_a_bucket_to_another_one_and_back(data, tmp_path, s3):
    logs = [bucket(s3, "log"), bucket(s3, "other")]
    report = move(data, logs[0])
    assert [each.container for each in report.logs] == [0, 1]
    assert record(data)["log"] == logs[0]
    assert length(data) == 5
    move(data, logs[1])
    assert record(data)["log"] == logs[1]
    move(logs[1], tmp_path / "new")
    assert record(tmp_path / "new") == {key: record(data)[key] for key in ("format", "containers", "system")}
    shutil.rmtree(data / "wal")
    with pytest.raises(InvalidArgumentError, match=r"moved to .*/new before"):
        move(data, data)
    shutil.rmtree(data / "wal")
    shutil.move(tmp_path / "new" / "wal", data / "wal")
    raise_format(system_runtime().filesystem, str(data), {"log": ""})
    assert length(data) == 5


def test_a_server_does_not_start_with_a_log_that_was_moved(data, s3):
    kept = record(data)
    move(data, bucket(s3, "log"))
    (data / "headrace.json").write_text(json.dumps(kept))
    with pytest.raises(PreconditionError, match=r"moved this log to s3://bucket/log.* goes on there"):
        length(data)


def test_a_copy_that_was_cut_off_before_it_was_remembered_is_repeated(data, s3):
    kept = record(data)
    log = bucket(s3, "log")
    move(data, log)
    (data / "headrace.json").write_text(json.dumps(kept))
    (claim,) = (key for key in s3.objects if "system" in key)
    del s3.objects[claim]
    empty = data.parent / "empty"
    empty.mkdir()
    with pytest.raises(DataCorruptionError, match="log copy` that was cut off has to be repeated"):
        take(empty, log, bucket(s3, "chunks"))
    move(data, log)
    assert length(data) == 5


def test_what_another_system_has_claimed_is_refused(data, s3):
    other = data.parent / "other"
    other.mkdir()
    log = bucket(s3, "log")
    taken = take(other, log)
    taken.release()
    with pytest.raises(InvalidArgumentError, match="the logs of another system"):
        move(data, log)
    assert length(data) == 5


def test_a_directory_in_use_is_refused(data, s3):
    taken = take(data, None)
    with pytest.raises(DirectoryLockedError):
        move(data, bucket(s3, "log"))
    taken.release()
    assert not s3.objects


def test_the_directory_of_a_cluster_is_refused(data, s3):
    raise_format(system_runtime().filesystem, str(data), {"cluster": "zk://h/root"})
    with pytest.raises(PreconditionError, match="with --coordinator in place of --from"):
        move(data, bucket(s3, "log"))
    assert not s3.objects


def test_a_bucket_that_lets_objects_be_overwritten_is_refused(data):
    overwritten = pytest.raises(UnsupportedError, match="overwritten")
    with beside(refuses_second=False) as s3, overwritten:
        move(data, bucket(s3, "log"))
    assert length(data) == 5


def test_places_that_make_no_move_are_refused(data, s3, tmp_path):
    empty = tmp_path / "empty"
    empty.mkdir()
    log = bucket(s3, "log")
    for source, target, told in (
        (empty, log, "has no data of a server"),
        (log, empty, "has no logs of a system"),
        (data, data, "already"),
        (data, empty, "both have their logs in files"),
        (data, "file:///x", "name a bucket"),
        (data, "hdfs://h:1/x", "name a bucket"),
    ):
        with pytest.raises(InvalidArgumentError, match=told):
            move(source, target)
    assert list(empty.iterdir()) == []
    assert length(data) == 5


def born(coordinator, directory):
    """Make a cluster of what a server has left in a directory; return its facts, with chunks in a bucket."""

    async def run():
        session, runtime = await coordinator.open(), system_runtime()
        with facts_of_directory(str(directory), runtime) as facts:
            moved = replace(facts, storage="s3://bucket/chunks")
            return await found_cluster(session, moved, str(directory), "zk://h/root", runtime.filesystem)

    return asyncio.run(run())


def note(coordinator, before, target):
    async def run():
        return await note_move(await coordinator.open(), before, target)

    return asyncio.run(run())


def length_in(facts):
    """Return how long the segment is in the logs that the facts name."""
    logs = find_logs("", system_runtime().filesystem, place_of(facts.log, system_runtime()))
    states = [replay_container(each, logs.log(each)).state.by_name for each in sorted(facts.opened)]
    return [state["s/t"].durable_length for state in states if "s/t" in state]


def test_the_log_of_a_stopped_cluster_moves_from_files_to_a_bucket_to_another_one(data, tmp_path, s3):
    coordinator, logs = MemoryCoordinator(), [bucket(s3, "log"), bucket(s3, "other")]
    facts = born(coordinator, data)
    assert facts.host
    runtime = system_runtime()
    store = DirectoryLock(runtime.filesystem, str(data), {"pid": 1}, shared=True)
    store.acquire()
    with pytest.raises(DirectoryLockedError):
        move(facts, logs[0])
    store.release()
    for log in logs:
        report = move(facts, log)
        assert move(facts, log) == report  # the coordinator did not answer
        facts = note(coordinator, facts, log)
        assert (facts.log, facts.host) == (log, "")
        assert length_in(facts) == [5]
        taken = asyncio.run(take_shared_directory(facts, runtime, "zk://h/root", str(tmp_path / "store")))
        taken.release()
        assert record(tmp_path / "store")["log"] == log
    with pytest.raises(PreconditionError, match=r"has been moved to .*other"):
        note(coordinator, replace(facts, log="s3://bucket/third"), "s3://bucket/fourth")


def test_a_cluster_whose_chunks_are_files_keeps_its_log(data, s3):
    facts = replace(born(MemoryCoordinator(), data), storage=f"file://{data}/chunks")
    for target in (bucket(s3, "log"), str(data)):
        with pytest.raises(InvalidArgumentError, match="moves into a bucket"):
            move(facts, target)
    assert not s3.objects
