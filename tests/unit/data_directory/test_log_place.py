"""A data directory whose log is in a bucket or over BookKeeper: whose it is, what is refused unchanged."""

import asyncio
from dataclasses import dataclass

import pytest

from headrace.data_directory.log_place import choose_log, claim_log, find_log_system, parse_log
from headrace.data_directory.record import make_record
from headrace.data_directory.taken_directory import take_directory
from headrace.errors import DataCorruptionError, InvalidArgumentError, PreconditionError
from headrace.processes.config import StandaloneConfig
from headrace.runtime.context import system_runtime
from headrace.runtime.filesystem import OsFilesystem
from headrace.wal.stores import LogBookies
from tests.stores.small_s3 import SmallS3
from tests.unit.wal.bookkeeper.memory_bookies import MemoryBookies


@dataclass
class Choice:
    data_dir: str
    log: str | None
    storage: str | None = None
    in_memory: bool = False
    containers: int | None = None


@pytest.fixture
async def s3():
    async with SmallS3() as store:
        yield store


def bucket(s3, prefix):
    return f"s3://bucket/{prefix}?anonymous=true&endpoint=http://127.0.0.1:{s3.port}&region=us-east-1"


async def take(directory, log, containers=None, storage=None):
    """Return what is known of a directory after a start that ended at once."""
    directory.mkdir(exist_ok=True)
    choice = Choice(str(directory), log, storage, containers=containers)
    taken = await asyncio.to_thread(take_directory, choice, system_runtime())
    taken.release()
    return taken


async def test_an_empty_directory_takes_system_and_containers_from_the_log(tmp_path, s3):
    log, storage = bucket(s3, "log"), bucket(s3, "chunks")
    one = await take(tmp_path / "one", log, 3, storage)
    two = await take(tmp_path / "two", log, storage=storage)
    assert (two.containers, two.store.system) == (3, one.store.system)
    assert two.store.log == log


async def test_a_directory_remembers_where_its_log_is(tmp_path, s3):
    log = bucket(s3, "log")
    await take(tmp_path / "one", log)
    assert (await take(tmp_path / "one", None)).store.log == log


@pytest.mark.parametrize("chosen", ["other", "log"])
async def test_the_log_of_a_directory_does_not_change_its_place(tmp_path, s3, chosen):
    first = None if chosen == "log" else bucket(s3, "log")
    await take(tmp_path / "one", first)
    before = dict(s3.objects)
    with pytest.raises(InvalidArgumentError, match="nothing was changed"):
        await take(tmp_path / "one", bucket(s3, chosen))
    assert s3.objects == before


async def test_the_log_of_another_system_is_refused(tmp_path, s3):
    await take(tmp_path / "one", bucket(s3, "log"))
    moved = {key: value for key, value in s3.objects.items() if "system" in key}
    await take(tmp_path / "two", bucket(s3, "log2"))
    s3.objects = {key.replace("log/", "log2/"): value for key, value in moved.items()}
    with pytest.raises(InvalidArgumentError, match="another system"):
        await take(tmp_path / "two", bucket(s3, "log2"))


async def test_another_number_of_containers_is_refused(tmp_path, s3):
    await take(tmp_path / "one", bucket(s3, "log"), 3)
    with pytest.raises(InvalidArgumentError, match="made with 3 containers"):
        await take(tmp_path / "two", bucket(s3, "log"), 4)


async def test_logs_that_do_not_say_whose_they_are_are_refused(tmp_path, s3):
    await take(tmp_path / "one", bucket(s3, "log"))
    ((key, value),) = [(key, value) for key, value in s3.objects.items() if "system" in key]
    del s3.objects[key]
    s3.objects[key.replace("system", "0/e1")] = value
    with pytest.raises(DataCorruptionError, match="whose it is is missing"):
        await take(tmp_path / "one", None)


async def test_a_bucket_that_lets_objects_be_overwritten_is_refused(tmp_path):
    async with SmallS3(refuses_second=False) as s3:
        with pytest.raises(Exception, match="overwritten"):
            await take(tmp_path / "one", bucket(s3, "log"))


async def test_a_bucket_that_does_not_answer_is_told(tmp_path, s3, monkeypatch):
    monkeypatch.setattr("headrace.wal.objects.object_calls.PAUSES_S", (0.0,))
    s3.refusal = (403, "AccessDenied")
    with pytest.raises(PreconditionError, match=r"nothing was started.*s3:GetObject"):
        await take(tmp_path / "one", bucket(s3, "log"))
    assert not (tmp_path / "one" / "headrace.json").exists()


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"log": "file:///data"}, "name a bucket"),
        ({"log": "hdfs://host:1/x"}, "name a bucket"),
        ({"log": "s3://b/x", "storage": "s3://b/x"}, "prefix of its own"),
        ({"log": "s3://b/x", "in_memory": True}, "leave out storage and log"),
        ({"log": "s3://b/x?secret=1"}, "takes no secret"),
        ({"log": "bookkeeper://zk1/ledgers?write=4"}, "do not fit"),
        ({"log": "bookkeeper://zk1/ledgers?fast=1"}, "no option 'fast'"),
    ],
)
def test_a_log_that_cannot_be_where_it_is_said_is_refused(settings, told):
    with pytest.raises(InvalidArgumentError, match=told):
        StandaloneConfig(**settings).check()


# ---- BookKeeper


async def claim(bookies, system, name="default"):
    await asyncio.to_thread(claim_log, LogBookies(bookies.cluster(name)), system * 16, 3)


async def test_the_logs_of_another_system_in_a_bookkeeper_are_refused_and_a_second_one_has_its_own():
    bookies = MemoryBookies()
    await claim(bookies, "aa")
    await claim(bookies, "aa")
    with pytest.raises(InvalidArgumentError, match="another system"):
        await claim(bookies, "bb")
    await claim(bookies, "bb", "second")
    found = await asyncio.to_thread(find_log_system, LogBookies(bookies.cluster("second")))
    assert found == ("bb" * 16, 3)


async def test_logs_over_bookkeeper_that_do_not_say_whose_they_are_are_refused():
    bookies = MemoryBookies()
    await bookies.session.create("headrace/default/logs/2", b"")
    with pytest.raises(DataCorruptionError, match="whose it is is missing"):
        await claim(bookies, "aa")


async def test_a_place_without_bookkeeper_or_with_too_few_bookies_is_told_and_nothing_is_made():
    bookies = MemoryBookies()
    for name in ("b0:1", "b1:1"):
        bookies.kill(name)
    with pytest.raises(PreconditionError, match=r"1 bookies take entries.*start more"):
        await claim(bookies, "aa")
    await bookies.session.delete("LAYOUT", 0)
    with pytest.raises(InvalidArgumentError, match="no BookKeeper"):
        await claim(bookies, "aa")
    assert await bookies.session.children("headrace") == []


LEDGERS = "bookkeeper://zk1:2181/ledgers?ensemble=3&write=3&ack=2"


@pytest.mark.parametrize(
    ("chosen", "kept"),
    [
        ("bookkeeper://zk1", True),
        ("bookkeeper://zk2:2182/ledgers?ensemble=5", True),
        ("bookkeeper://zk1/other", False),
        ("bookkeeper://zk1?system=other", False),
        ("s3://bucket/log", False),
    ],
)
def test_a_bookkeeper_may_get_other_servers_and_quorums_but_not_another_root(tmp_path, chosen, kept):
    files, directory = OsFilesystem(), str(tmp_path)
    make_record(files, directory, 3, {"log": LEDGERS})
    if kept:
        log = choose_log(chosen, files, directory, has_data=True)
        assert log == str(parse_log(chosen))
    else:
        with pytest.raises(InvalidArgumentError, match="nothing was changed"):
            choose_log(chosen, files, directory, has_data=True)
