"""Logs of a stopped system in another place: what is there, and what an owner of the former ones meets."""

import asyncio
import itertools

import pytest

from headrace.errors import (
    DataCorruptionError,
    FencedOutError,
    InvalidArgumentError,
    PreconditionError,
    StorageWriteError,
    UnsupportedError,
    WalWriteError,
)
from headrace.repair.log_copy.log_copy import LogCopy
from headrace.runtime.context import system_runtime
from headrace.segmentstore.durablelog.frame_reader import FrameReader
from headrace.storage.providers.memory import MemoryChunkProvider
from headrace.testing.conformance.wal import append_all, numbered, read_contents
from headrace.wal.stores import LogBookies, LogBucket, make_logs
from tests.unit.wal.bookkeeper.memory_bookies import MemoryBookies
from tests.unit.wal.world import SMALL

pytestmark = pytest.mark.real_loop
PLACE = "s3://bucket/new"


class Files:
    def __init__(self, directory):
        self.directory = directory

    def logs(self):
        return make_logs(str(self.directory), system_runtime(), SMALL)


class Objects:
    """``store`` is in memory, and may be one that does not do what it should."""

    def __init__(self, _directory=None, store=None):
        self.store = store or MemoryChunkProvider()

    def logs(self):
        return make_logs("", system_runtime(), SMALL, place=LogBucket("memory://", lambda: self.store))


class Ledgers:
    def __init__(self, _directory=None):
        self.bookies = MemoryBookies()

    def logs(self):
        return make_logs("", system_runtime(), SMALL, place=LogBookies(self.bookies.cluster()))


async def write(place, container, count, start=0):
    """Append so many records as the next owner; return its container epoch."""
    wal = place.logs().make_wal(container)
    await wal.open()
    appended = await append_all(wal, numbered(count, start))
    assert appended.errors == [None] * count
    await wal.close()
    return wal.epoch


async def copy(source, target, containers=(0, 1), place=PLACE):
    def run():
        with asyncio.Runner() as runner:
            clock = system_runtime().clock
            return LogCopy(source.logs(), target.logs(), place, clock, runner.run).run(containers)

    return await asyncio.to_thread(run)


async def contents(place, container):
    """Return what the next owner finds, and its container epoch."""
    wal = place.logs().make_wal(container)
    await wal.open()
    try:
        return await read_contents(wal), wal.epoch
    finally:
        await wal.close()


def everything(place, container):
    return [bytes(frame.payload) for frame in place.logs().log(container).snapshot().frames()]


@pytest.fixture(
    params=itertools.product((Files, Objects, Ledgers), repeat=2),
    ids=lambda kinds: "-".join(k.__name__ for k in kinds),
)
async def places(request, tmp_path):
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    return [kind(tmp_path / name) for kind, name in zip(request.param, ("one", "two"), strict=True)]


async def test_the_copy_has_every_record_in_order_and_its_epochs_go_on_above(places):
    source, target = places
    await write(source, 0, 40)
    epoch = await write(source, 0, 5, 40)
    await write(source, 1, 0)
    copied = await copy(source, target)
    assert [each.contents.records for each in copied] == [45, 0]
    found, successor = await contents(target, 0)
    assert found == numbered(45)
    assert successor > epoch + 1


async def test_a_log_that_was_moved_says_where_it_goes_on(places):
    source, target = places
    await write(source, 0, 3)
    await copy(source, target, [0])
    found, _ = await contents(source, 0)
    reader = FrameReader()
    with pytest.raises(PreconditionError, match=f"moved this log to {PLACE}"):
        list(reader.feed(1, memoryview(found[-1])))


async def test_an_owner_that_goes_on_with_the_former_log_is_fenced(places):
    source, target = places
    owner = source.logs().make_wal(0)
    await owner.open()
    await append_all(owner, numbered(2))
    await copy(source, target, [0])
    late = await append_all(owner, [b"late"])
    assert [type(error) for error in late.errors] == [FencedOutError]
    await owner.close()
    assert (await contents(target, 0))[0] == numbered(2)


async def test_a_copy_that_is_repeated_once_it_has_ended_changes_nothing(places):
    source, target = places
    await write(source, 0, 3)
    copied = await copy(source, target, [0])
    assert await copy(source, target, [0]) == copied
    assert everything(target, 0) == numbered(3)
    with pytest.raises(InvalidArgumentError, match=f"moved to {PLACE} before"):
        await copy(source, Objects(), [0], "s3://bucket/third")


async def test_a_log_that_is_no_part_of_the_copied_one_is_refused_and_stays(places):
    source, target = places
    await write(source, 0, 3)
    await write(target, 0, 3, start=1)
    with pytest.raises(InvalidArgumentError, match="no part of the one in"):
        await copy(source, target, [0])
    await write(target, 1, 4)
    await write(source, 1, 3)
    with pytest.raises(InvalidArgumentError, match="no part of the one in"):
        await copy(source, target, [1])  # the beginning is the same
    assert everything(target, 1) == numbered(4)
    assert everything(source, 1) == numbered(3)


class DyingStore(MemoryChunkProvider):
    """Takes so many objects, and no more."""

    def __init__(self, objects):
        super().__init__()
        self.left = objects

    async def create(self, name, buffers=()):
        if self.left <= 0:
            raise StorageWriteError("it does not answer")
        self.left -= 1
        await super().create(name, buffers)


@pytest.mark.parametrize("objects", [0, 1, 2, 3, 4, 5])
async def test_a_copy_that_was_cut_off_is_repeated(tmp_path, monkeypatch, objects):
    monkeypatch.setattr("headrace.wal.objects.object_calls.PAUSES_S", (0.0,))
    source, target = Files(tmp_path), Objects(store=DyingStore(objects))
    for container in (0, 1):
        await write(source, container, 3)
    with pytest.raises(WalWriteError):
        await copy(source, target)
    assert everything(source, 0) == numbered(3)
    target.store.left = 1000
    await copy(source, target)
    for container in (0, 1):
        assert (await contents(target, container))[0] == numbered(3)


async def test_a_copy_that_was_cut_off_while_it_ended_the_former_logs_is_repeated(tmp_path, monkeypatch):
    monkeypatch.setattr("headrace.wal.objects.object_calls.PAUSES_S", (0.0,))
    source, target = Objects(store=DyingStore(1000)), Files(tmp_path)
    for container in (0, 1):
        await write(source, container, 3)
    source.store.left = 3  # two owners, and the end of the first log
    with pytest.raises(WalWriteError):
        await copy(source, target)
    source.store.left = 1000
    await copy(source, target)
    for container in (0, 1):
        assert (await contents(target, container))[0] == numbered(3)
        assert everything(source, container)[:3] == numbered(3)
        assert len(everything(source, container)) == 4


class TakenStore(MemoryChunkProvider):
    """A server takes the log of container 0 as soon as another one has container 1."""

    async def create(self, name, buffers=()):
        await super().create(name, buffers)
        if name.startswith("1/e2"):
            await write(Objects(store=self), 0, 1, 3)


async def test_a_server_that_takes_a_log_while_it_is_copied_goes_on_with_it(tmp_path):
    source = Objects(store=TakenStore())
    for container in (0, 1):
        await write(source, container, 3)
    with pytest.raises(FencedOutError, match="log of container 0 while it was copied"):
        await copy(source, Files(tmp_path))
    assert everything(source, 0) == numbered(4)
    assert everything(source, 1) == numbered(3)


class LargeFiles(Files):
    def logs(self):
        return make_logs(str(self.directory), system_runtime())


async def test_a_record_that_the_new_place_does_not_take_is_refused_and_the_former_log_goes_on(tmp_path):
    source, large = LargeFiles(tmp_path), bytes(SMALL.frame_bytes_max + 1)
    wal = source.logs().make_wal(0)
    await wal.open()
    await append_all(wal, [large])
    await wal.close()
    with pytest.raises(UnsupportedError, match="larger than the"):
        await copy(source, Objects(), [0])
    assert everything(source, 0) == [large]


class LosingStore(MemoryChunkProvider):
    """Forgets a record that it has acknowledged."""

    async def create(self, name, buffers=()):
        if "/r" not in name or "-1" not in name:
            await super().create(name, buffers)


async def test_a_copy_that_lacks_a_record_is_refused_and_the_former_log_goes_on(tmp_path):
    source = Files(tmp_path)
    await write(source, 0, 40)
    with pytest.raises(DataCorruptionError):
        await copy(source, Objects(store=LosingStore()), [0])
    assert everything(source, 0) == numbered(40)
