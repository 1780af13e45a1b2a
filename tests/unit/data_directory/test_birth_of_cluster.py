"""A directory of a standalone server becomes that of a cluster: with what it is born, what is refused, and
what is left of a birth that was cut off.
"""

import asyncio
import json
import os
import shutil

import pytest

from headrace.cluster.facts_node import Facts
from headrace.cluster.facts_store import create_facts, find_facts, note_buckets, read_facts
from headrace.coordination.memory import MemoryCoordinator
from headrace.data_directory.birth_of_cluster import facts_of_directory, found_cluster
from headrace.data_directory.record import FORMAT
from headrace.data_directory.shared_directory import take_shared_directory
from headrace.data_directory.taken_directory import take_directory
from headrace.data_directory.unfinished_rebuild import Wanted, begin_rebuild
from headrace.errors import (
    DataCorruptionError,
    DirectoryLockedError,
    InvalidArgumentError,
    PreconditionError,
    UnknownOutcomeError,
)
from headrace.processes.config import SegmentStoreConfig
from headrace.processes.store_server import SegmentStoreServer
from headrace.runtime.context import system_runtime
from headrace.runtime.host_id import find_host_id
from tests.stores.small_s3 import beside

pytestmark = pytest.mark.real_loop
WHERE = "zk://h1:2181/root"
OTHER = "zk://h1:2181/other"
CONTAINERS = 2


@pytest.fixture(scope="module")
def used(tmp_path_factory):
    """A directory that a server has used."""
    directory = tmp_path_factory.mktemp("used") / "data"
    config = SegmentStoreConfig(
        data_dir=str(directory), containers=CONTAINERS, segmentstore_port=0, rest_port=0
    )

    async def use():
        server = SegmentStoreServer(config)
        await server.start()
        await server.stop()

    asyncio.run(use())
    return directory


@pytest.fixture
def data(used, tmp_path):
    return shutil.copytree(used, tmp_path / "data", copy_function=os.link)  # logs are large, and not written


def contents(directory):
    """Return what tells whether a file was written or replaced, for each one."""
    found = {path: path.stat() for path in directory.rglob("*") if path.name != "LOCK" and path.is_file()}
    return {path: (each.st_ino, each.st_mtime_ns, each.st_size) for path, each in found.items()}


def write_record(directory, text):
    (directory / "headrace.json").unlink()
    (directory / "headrace.json").write_text(text)


def record_of(directory):
    return json.loads((directory / "headrace.json").read_text())


async def found(coordinator, directory, where=WHERE):
    runtime = system_runtime()
    session = await coordinator.open()
    with facts_of_directory(str(directory), runtime) as facts:
        return await found_cluster(session, facts, str(directory), where, runtime.filesystem)


async def born(coordinator):
    return await find_facts(await coordinator.open())


class SilentCoordinator(MemoryCoordinator):
    """Answers to nobody who makes a node, whether or not it is made."""

    def __init__(self, *, makes):
        super().__init__()
        self.silent, self._makes = True, makes

    async def open(self):
        session = await super().open()
        create = session.create

        async def maybe(*given, **how):
            if not self.silent:
                return await create(*given, **how)
            if self._makes:
                self._makes = False
                await create(*given, **how)
            raise UnknownOutcomeError("no answer")

        session.create = maybe
        return session


@pytest.mark.slow
async def test_a_cluster_is_born_with_what_the_directory_was_made_for(data):
    before, record = contents(data), record_of(data)
    coordinator = MemoryCoordinator()
    facts = await found(coordinator, data)
    assert facts == Facts(
        *(
            record["system"],
            CONTAINERS,
            0,
            f"file://{data}/wal",
            f"file://{data}/chunks",
            FORMAT,
            find_host_id(),
        ),
        frozenset(range(CONTAINERS)),
    )
    assert await born(coordinator) == facts
    after = contents(data)
    assert after.pop(data / "headrace.json") != before.pop(data / "headrace.json")
    assert after == before
    assert record_of(data) == {**record, "cluster": WHERE}


async def test_no_server_is_alone_on_it_afterwards(data):
    await found(MemoryCoordinator(), data)
    with pytest.raises(PreconditionError, match=f"segmentstore --coordinator {WHERE}"):
        take_directory(SegmentStoreConfig(data_dir=str(data)), system_runtime())


async def test_a_repeated_birth_changes_nothing_whatever_the_cluster_has_learned(data):
    coordinator = MemoryCoordinator()
    await found(coordinator, data)
    await note_buckets(await coordinator.open(), 8)
    before = contents(data)
    assert (await found(coordinator, data)).buckets == 8
    assert (await read_facts(await coordinator.open())).buckets == 8
    assert contents(data) == before


@pytest.mark.parametrize("makes", [False, True])
async def test_a_birth_of_unknown_outcome_is_repeated_there_and_nowhere_else(data, makes):
    coordinator = SilentCoordinator(makes=makes)
    with pytest.raises(UnknownOutcomeError):
        await found(coordinator, data)
    with pytest.raises(PreconditionError, match="did not come to its end, and has to be repeated"):
        take_directory(SegmentStoreConfig(data_dir=str(data)), system_runtime())
    with pytest.raises(PreconditionError, match="and of no second one"):
        await found(MemoryCoordinator(), data, OTHER)
    coordinator.silent = False
    assert await found(coordinator, data) == await born(coordinator)
    assert record_of(data)["cluster"] == WHERE


async def test_where_another_cluster_is_nothing_is_born_and_the_server_goes_on_alone(data):
    coordinator = MemoryCoordinator()
    other = Facts("ff" * 16, CONTAINERS, 16, "file:///logs", "file:///chunks", FORMAT)
    await create_facts(await coordinator.open(), other)
    before = contents(data)
    with pytest.raises(PreconditionError, match="has a cluster already"):
        await found(coordinator, data)
    assert await born(coordinator) == other
    assert contents(data) == before
    take_directory(SegmentStoreConfig(data_dir=str(data)), system_runtime()).release()


async def test_while_a_server_uses_it_nothing_is_born(data):
    coordinator = MemoryCoordinator()
    taken = take_directory(SegmentStoreConfig(data_dir=str(data)), system_runtime())
    with pytest.raises(DirectoryLockedError, match="in use by pid"):
        await found(coordinator, data)
    taken.release()
    assert await born(coordinator) is None


def _half_rebuilt(data):
    begin_rebuild(system_runtime().filesystem, str(data), Wanted("s3://bucket", None))


def _without_a_log(data):
    shutil.rmtree(data / "wal" / "container-1")
    segment = data / "chunks" / "s"
    segment.mkdir()
    (segment / "t%2F0.%23epoch.0.E-1-O-0.1.chunk").write_bytes(b"")


def _without_chunks(data):
    shutil.rmtree(data / "chunks")


def _with_a_damaged_log(data):
    for log in [*(data / "wal" / "container-0").glob("*.wal")]:
        log.unlink()
        log.write_bytes(b"\xff" * 8192)


def _without_a_record(data):
    (data / "headrace.json").unlink()


def _of_a_later_version(data):
    write_record(data, json.dumps({**record_of(data), "format": 99}))


def _with_a_broken_record(data):
    write_record(data, "{")


@pytest.mark.parametrize(
    ("spoil", "error", "words"),
    [
        (_half_rebuilt, DataCorruptionError, "did not come to its end"),
        (_without_a_log, DataCorruptionError, "log of this container is missing"),
        (_without_chunks, DataCorruptionError, "there are no chunks"),
        (_with_a_damaged_log, DataCorruptionError, "wal"),
        (_without_a_record, InvalidArgumentError, "has no data of a server"),
        (_of_a_later_version, InvalidArgumentError, "data of format 99"),
        (_with_a_broken_record, DataCorruptionError, "not JSON"),
    ],
)
async def test_what_is_not_whole_stays_as_it_is(data, spoil, error, words):
    spoil(data)
    before = contents(data)
    coordinator = MemoryCoordinator()
    with pytest.raises(error, match=words):
        await found(coordinator, data)
    assert await born(coordinator) is None
    assert contents(data) == before


async def test_where_there_is_nothing_nothing_is_made(tmp_path):
    coordinator = MemoryCoordinator()
    with pytest.raises(InvalidArgumentError, match="nothing was made"):
        await found(coordinator, tmp_path / "new")
    assert not (tmp_path / "new").exists()
    assert await born(coordinator) is None


def used_in_bucket(s3, directory, **settings):
    """Let a server use a directory whose log is in a bucket; return the URI of a place there."""

    def place(prefix):
        return f"s3://bucket/{prefix}?anonymous=true&endpoint=http://127.0.0.1:{s3.port}&region=us-east-1"

    config = SegmentStoreConfig(
        data_dir=str(directory),
        containers=CONTAINERS,
        segmentstore_port=0,
        rest_port=0,
        log=place("log"),
        **{name: place(prefix) for name, prefix in settings.items()},
    )

    async def use():
        server = SegmentStoreServer(config)
        await server.start()
        await server.stop()

    asyncio.run(use())
    return place


def test_a_cluster_that_goes_on_with_a_log_in_a_bucket_has_stores_on_any_machine(tmp_path):
    with beside() as s3:
        place = used_in_bucket(s3, tmp_path / "data", storage="chunks")
        record = record_of(tmp_path / "data")
        facts = asyncio.run(found(MemoryCoordinator(), tmp_path / "data"))
        assert facts == Facts(
            record["system"],
            CONTAINERS,
            0,
            place("log"),
            place("chunks"),
            FORMAT,
            "",
            frozenset(range(CONTAINERS)),
        )
        for directory in ("data", "of another store"):
            store = take_shared_directory(facts, system_runtime(), WHERE, str(tmp_path / directory))
            taken = asyncio.run(store)
            assert (taken.store.system, taken.store.log) == (record["system"], place("log"))
            taken.release()


def test_chunks_in_files_keep_a_log_in_a_bucket_from_becoming_a_clusters(tmp_path):
    with beside() as s3:
        used_in_bucket(s3, tmp_path / "data")
        coordinator, before = MemoryCoordinator(), record_of(tmp_path / "data")
        with pytest.raises(InvalidArgumentError, match="copy them to a bucket first"):
            asyncio.run(found(coordinator, tmp_path / "data"))
        assert record_of(tmp_path / "data") == before
        assert asyncio.run(born(coordinator)) is None
