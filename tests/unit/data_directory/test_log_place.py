"""A data directory whose log is in a bucket: whose it is, and what is refused before anything changes."""

import asyncio
from dataclasses import dataclass

import pytest

from headrace.data_directory.taken_directory import take_directory
from headrace.errors import DataCorruptionError, InvalidArgumentError, PreconditionError
from headrace.processes.config import StandaloneConfig
from headrace.runtime.context import system_runtime
from tests.stores.small_s3 import SmallS3


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
    ],
)
def test_a_log_that_cannot_be_where_it_is_said_is_refused(settings, told):
    with pytest.raises(InvalidArgumentError, match=told):
        StandaloneConfig(**settings).check()
