"""The log in a bucket as its owners use it, over a simulated store that is slow, loses answers and calls."""

import asyncio
from collections import Counter

import pytest

from headrace.errors import FencedOutError, SnapshotLostError, WalWriteError
from headrace.runtime.entropy import SeededEntropy
from headrace.testing.conformance.wal import append_all, numbered, read_contents
from headrace.testing.loop import SimulatedLoop
from headrace.testing.object_store_faults import FaultyObjectStore, ObjectStoreFaults
from headrace.wal.config import WalConfig
from headrace.wal.objects.config import ObjectLogConfig
from headrace.wal.objects.object_wal import ObjectWal
from tests.effort import seeds

FRAMES = WalConfig(frame_bytes_max=512, frames_max=16)
FAULTS = ObjectStoreFaults(
    latency_s_max=0.05,
    refused_per_thousand=20,
    lost_replies_per_thousand=50,
    slow_per_thousand=30,
    broken_per_thousand=30,
    slow_s_max=3.0,
)


def simulate(scenario, seed=0, faults=None):
    """Run a scenario, given a store and what makes an owner of its log."""
    entropy = SeededEntropy(seed)
    loop = SimulatedLoop(entropy.fork("loop"))

    async def run():
        store = FaultyObjectStore(entropy.fork("store"), faults or ObjectStoreFaults(latency_s_max=0.05))

        def make(**config):
            return ObjectWal(store, 3, entropy, FRAMES, ObjectLogConfig(**config))

        return await scenario(store, make)

    try:
        return loop.run_until_complete(run())
    finally:
        loop.close()


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds(40))
def test_owners_in_a_row_keep_what_was_acknowledged_whatever_the_store_loses(seed):
    async def scenario(store, make):
        acknowledged, expected, owners = [], 0, []
        for start in range(0, 90, 30):
            owner = await opened(make)
            found = await read_contents(owner)
            assert [each for each in found if each in acknowledged] == acknowledged
            expected = len(found)
            owners.append(owner)
            appending = asyncio.ensure_future(append_all(owner, numbered(30, start)))
            if start:  # a former owner goes on meanwhile
                late = await append_all(owners[-2], [b"late"])
                assert late.acknowledged == []
            acknowledged += (await appending).acknowledged
        store.faults = ObjectStoreFaults()
        await store.settle()
        for owner in owners:
            await owner.close()
        last = await opened(make)
        found = await read_contents(last)
        assert [each for each in found if each in acknowledged] == acknowledged
        assert len(found) >= expected
        assert len(set(found)) == len(found)
        await last.close()

    simulate(scenario, seed, FAULTS)


async def opened(make):
    """Open the log, again and again if the store does not answer."""
    for _ in range(20):
        owner = make()
        try:
            await owner.open()
        except WalWriteError:
            await owner.close()
        else:
            return owner
    raise AssertionError("the store never answers")


def test_an_owner_that_slept_while_all_its_records_were_truncated_acknowledges_nothing():
    async def scenario(_, make):
        old = await opened(make)
        appended = await append_all(old, numbered(5))
        new = await opened(make)
        assert await read_contents(new) == numbered(5)
        await new.truncate(appended.addresses[-1] + 1)
        assert await new.purge_freed()
        late = await append_all(old, [b"late"] * 3)
        assert [type(error) for error in late.errors] == [FencedOutError] * 3
        await old.close()
        await new.close()

    simulate(scenario)


def test_many_frames_share_few_objects_and_a_lone_one_waits_for_nothing():
    async def scenario(store, make):
        owner = make(window=2)
        await owner.open()
        store.calls.clear()
        await append_all(owner, numbered(64))
        assert store.calls["create"] <= 20
        store.calls.clear()
        loop = asyncio.get_running_loop()
        began = loop.time()
        await append_all(owner, [b"one"])
        assert loop.time() - began <= 0.11
        assert store.calls == Counter(create=1)
        await owner.close()

    simulate(scenario)


def test_linger_bounds_the_requests_of_a_second():
    async def scenario(store, make):
        owner = make(linger_s=0.25)
        await owner.open()
        store.calls.clear()
        for number in range(50):
            writing = asyncio.ensure_future(append_all(owner, numbered(1, number)))
            await asyncio.sleep(0.02)
        await writing
        assert store.calls["create"] <= 6
        await owner.close()
        again = await opened(make)
        assert await read_contents(again) == numbered(50)
        await again.close()

    simulate(scenario)


def test_linger_holds_back_no_full_record():
    async def scenario(_, make):
        owner = make(linger_s=5.0, record_bytes_max=1000)
        await owner.open()
        began = asyncio.get_running_loop().time()
        await append_all(owner, [bytes([number]) * 500 for number in range(15)])  # one, and seven full ones
        assert asyncio.get_running_loop().time() - began < 1.0
        await owner.close()

    simulate(scenario)


def test_many_small_records_are_read_at_the_same_time():
    async def scenario(_, make):
        owner = await opened(make)
        for number in range(320):
            await append_all(owner, numbered(1, number))
        await owner.close()
        again = await opened(make)
        began = asyncio.get_running_loop().time()
        assert await read_contents(again) == numbered(320)
        assert asyncio.get_running_loop().time() - began < 1.3  # each takes up to 0.05 s
        await again.close()

    simulate(scenario)


def test_an_idle_log_costs_nothing():
    async def scenario(store, make):
        owner = await opened(make)
        await append_all(owner, numbered(3))
        store.calls.clear()
        await asyncio.sleep(600)
        assert store.calls == {}
        await owner.close()

    simulate(scenario)


def test_a_store_that_does_not_answer_fails_the_owner_and_loses_nothing():
    async def scenario(store, make):
        owner = await opened(make)
        await append_all(owner, numbered(3))
        store.faults = ObjectStoreFaults(refused_per_thousand=1000)
        failed = await append_all(owner, [b"a", b"b"])
        assert [type(error) for error in failed.errors] == [WalWriteError] * 2
        store.faults = ObjectStoreFaults()
        await owner.close()
        again = await opened(make)
        assert await read_contents(again) == numbered(3)
        await again.close()

    simulate(scenario)


def test_what_is_left_after_truncations_is_two_objects_for_each_owner():
    async def scenario(store, make):
        for start in range(0, 30, 10):
            owner = await opened(make)
            await read_contents(owner)
            appended = await append_all(owner, numbered(10, start))
            await owner.truncate(appended.addresses[-1] + 1)
            assert await owner.purge_freed()
            await owner.close()
        claims = ["3/e1", "3/e2", "3/e3"]
        fences = [name for name in store.objects if name.startswith("3/r")]
        heads = [name for name in store.objects if name.startswith("3/h")]
        assert sorted(store.objects) == sorted([*claims, *fences, *heads])
        assert sorted(name.partition("-")[0] for name in fences) == ["3/r1", "3/r2"]
        assert len(heads) == 1

    simulate(scenario)


def test_a_copy_that_meets_a_truncation_is_lost():
    async def scenario(_, make):
        owner = await opened(make)
        appended = await append_all(owner, numbered(200))
        pieces = owner.copy_records()
        await anext(pieces)
        await owner.truncate(appended.addresses[-1] + 1)
        with pytest.raises(SnapshotLostError):
            async for _ in pieces:
                pass
        await owner.close()

    simulate(scenario)
