"""The object store that fails on purpose does each thing its fault model names."""

import asyncio

import pytest

from headrace.errors import ChunkExistsError, NoSuchChunkError, StorageReadError, StorageWriteError
from headrace.runtime.entropy import SeededEntropy
from headrace.testing.object_store_faults import FaultyObjectStore, Moment, ObjectStoreFaults
from headrace.testing.simulation import simulate


def make(**faults):
    return FaultyObjectStore(SeededEntropy(1), ObjectStoreFaults(**faults))


def run(scenario):
    return simulate(1, scenario).value


def test_a_refused_call_has_no_effect():
    async def scenario(_):
        store = make(refused_per_thousand=1000)
        with pytest.raises(StorageWriteError):
            await store.create("a", [b"x"])
        with pytest.raises(StorageReadError):
            await store.read("a", 0, 1)
        with pytest.raises(StorageReadError):
            async for _ in store.list():
                pass
        await store.settle()
        assert not store.objects

    run(scenario)


def test_a_call_whose_answer_is_lost_has_happened():
    async def scenario(_):
        store = make(lost_replies_per_thousand=1000)
        with pytest.raises(StorageWriteError):
            await store.create("a", [b"x"])
        assert bytes(await store.read("a", 0, 1)) == b"x"
        with pytest.raises(StorageWriteError):
            await store.delete("a")
        assert not store.objects

    run(scenario)


def test_an_object_appears_after_its_creation_was_given_up():
    async def scenario(_):
        store = make(broken_per_thousand=1000, slow_s_max=100.0)
        with pytest.raises(StorageWriteError):
            await store.create("a", [b"x"])
        assert not store.objects
        await store.settle()
        assert store.objects == {"a": b"x"}

    run(scenario)


def test_a_slow_call_goes_on_when_its_caller_was_cancelled_or_killed():
    async def scenario(sim):
        store = make(slow_per_thousand=1000, slow_s_max=100.0)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1.0):
                await store.create("cancelled", [b"x"])
        host = sim.host("h")
        host.spawn("create", store.create("killed", [b"x"]))
        await asyncio.sleep(1.0)
        host.kill()
        assert not store.objects
        await store.settle()
        assert set(store.objects) == {"cancelled", "killed"}

    run(scenario)


def test_in_a_storm_every_call_is_refused_and_behind_it_none():
    async def scenario(_):
        store = make(storm_every_s=100.0, storm_s=50.0)
        outcomes = set()
        for number in range(20):
            now = asyncio.get_running_loop().time() % 100.0
            try:
                await store.create(f"{number}", [b"x"])
            except StorageWriteError:
                outcomes.add((now < 50.0, False))
            else:
                outcomes.add((now < 50.0, True))
            await asyncio.sleep(10.0)
        assert outcomes == {(True, False), (False, True)}

    run(scenario)


def test_a_stranger_may_have_been_there_first():
    async def scenario(_):
        store = make(strangers_per_thousand=1000)
        with pytest.raises(ChunkExistsError):
            await store.create("a", [b"mine"])
        assert store.objects["a"] != b"mine"

    run(scenario)


def test_changes_are_shown_and_calls_are_counted():
    async def scenario(_):
        store = make()
        seen = []
        store.on_change = lambda call, moment: seen.append((call.kind, moment, "a" in store.objects))
        await store.create("a", [b"x"])
        await store.delete("a")
        with pytest.raises(NoSuchChunkError):
            await store.info("a")
        assert seen == [
            ("create", Moment.BEFORE, False),
            ("create", Moment.AFTER, True),
            ("delete", Moment.BEFORE, True),
            ("delete", Moment.AFTER, False),
        ]
        assert store.calls == {"create": 1, "delete": 1, "info": 1}

    run(scenario)
