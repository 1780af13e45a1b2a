"""Every call is counted and timed, by kind and outcome."""

import asyncio

import pytest

from headrace.errors import (
    ChunkOffsetError,
    NoSuchChunkError,
    StorageFullError,
    StorageReadRefusedError,
    StorageWriteRefusedError,
)
from headrace.storage.providers.memory import MemoryChunkProvider
from headrace.storage.providers.wrappers.measured import REFUSED_S, MeasuredChunkProvider
from headrace.storage.providers.wrappers.wrapper import ChunkProviderWrapper
from headrace.testing.simulation import simulate
from tests.unit.storage.chunks_at_hand import ChunksAtHand


async def test_what_succeeded_is_counted():
    provider = MeasuredChunkProvider(MemoryChunkProvider(bytes_max=10))
    await provider.create("c", [b"ab", b"c"])
    await provider.append("c", 3, [b"de"])
    assert await provider.read("c", 0, 4) == b"abcd"
    await provider.delete("c")
    assert provider.local is None
    counted = provider.statistics()
    assert (counted.objects_created, counted.objects_deleted) == (1, 1)
    assert (counted.bytes_written, counted.bytes_read, counted.reads) == (5, 4, 1)
    assert {kind: each.calls for kind, each in counted.calls.items()} == {
        "create": 1,
        "append": 1,
        "read": 1,
        "delete": 1,
        "info": 0,
        "list": 0,
    }
    assert {kind: each.bytes for kind, each in counted.calls.items() if each.bytes} == {
        "create": 3,
        "append": 2,
        "read": 4,
    }


async def test_what_failed_is_counted_by_the_class_of_its_error():
    provider = MeasuredChunkProvider(MemoryChunkProvider(bytes_max=10))
    await provider.create("c", [b"abc"])
    for kind, error, call in [
        ("create", StorageFullError, lambda: provider.create("d", [bytes(11)])),
        ("append", ChunkOffsetError, lambda: provider.append("c", 0, [b"x"])),
        ("read", ChunkOffsetError, lambda: provider.read("c", 0, 4)),
        ("read", NoSuchChunkError, lambda: provider.read("d", 0, 4)),
        ("info", NoSuchChunkError, lambda: provider.info("d")),
    ]:
        with pytest.raises(error):
            await call()
        assert provider.statistics().calls[kind].errors[error.__name__] == 1
    counted = provider.statistics()
    assert (counted.objects_created, counted.bytes_written, counted.bytes_read, counted.reads) == (1, 3, 0, 0)
    assert counted.calls["create"].calls == 2
    assert not any(each.in_flight for each in counted.calls.values())


async def test_a_page_of_a_list_is_a_call():
    provider = MeasuredChunkProvider(MemoryChunkProvider())
    for number in range(1500):
        await provider.create(str(number))
    assert [len(page) async for page in provider.list()] == [1000, 500]
    assert provider.statistics().calls["list"].calls == 3  # the last one found no more


async def test_what_is_read_at_once_is_counted_as_far_as_it_goes():
    provider = MeasuredChunkProvider(ChunksAtHand(MemoryChunkProvider()))
    await provider.create("c", [b"abcde"])
    buffer = bytearray(4)
    assert provider.local.read_at_once("c", 0, memoryview(buffer)) == 4
    assert provider.local.read_at_once("c", 3, memoryview(buffer)) == 2
    assert buffer == b"decd"
    counted = provider.statistics()
    assert (counted.reads, counted.reads_at_once, counted.bytes_read) == (0, 1, 6)


class Refusing(ChunkProviderWrapper):
    refuses = True

    async def create(self, name, buffers=(), beside=None):
        if self.refuses:
            raise StorageWriteRefusedError("creating it: no", reason="no")
        await super().create(name, buffers, beside)

    async def read(self, name, offset, length):
        if self.refuses:
            raise StorageReadRefusedError("reading it: not this", reason="not this")
        return await super().read(name, offset, length)


def test_a_store_refuses_until_a_call_of_that_kind_succeeds_or_nobody_has_asked_for_long():
    async def scenario():
        store = Refusing(MemoryChunkProvider())
        provider = MeasuredChunkProvider(store)

        def refusals():
            return provider.statistics().refusals()

        assert refusals() == {}
        with pytest.raises(StorageWriteRefusedError):
            await provider.create("c", [b"abc"])
        with pytest.raises(StorageReadRefusedError):
            await provider.read("c", 0, 1)
        assert refusals() == {"create": "no", "read": "not this"}
        store.refuses = False
        await provider.create("c", [b"abc"])
        assert refusals() == {"read": "not this"}
        await asyncio.sleep(REFUSED_S - 1)
        assert refusals() == {"read": "not this"}
        await asyncio.sleep(2)
        assert refusals() == {}

    simulate(0, lambda _: scenario())


class Slow(ChunkProviderWrapper):
    async def info(self, name):
        await asyncio.sleep(float(name))


def test_calls_are_timed_and_those_in_flight_counted():
    async def scenario():
        provider = MeasuredChunkProvider(Slow(MemoryChunkProvider()))
        calls = [asyncio.ensure_future(provider.info(seconds)) for seconds in ["0.02", "0.02", "0.5", "30"]]
        await asyncio.sleep(2)
        seen = provider.statistics().calls["info"]
        assert (seen.calls, seen.in_flight, seen.in_flight_max) == (3, 1, 4)
        assert seen.by_bucket == [0, 0, 0, 0, 0, 2, 0, 0, 1, 0, 0]
        assert seen.seconds_total == pytest.approx(0.54, abs=0.01)
        assert seen.seconds_max == pytest.approx(0.5, abs=0.01)
        calls[-1].cancel()
        await asyncio.wait(calls)
        seen = provider.statistics().calls["info"]
        assert (seen.in_flight, seen.errors) == (0, {"CancelledError": 1})
        assert seen.by_bucket[-2] == 1

    simulate(0, lambda _: scenario())
