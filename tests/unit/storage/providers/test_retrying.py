"""What a store refuses now and then is read all the same; what it may have written is not written again."""

from __future__ import annotations

import pytest

from headrace.errors import (
    ChunkOffsetError,
    NoSuchChunkError,
    StorageFullError,
    StorageReadError,
    StorageWriteError,
)
from headrace.limits import MIB
from headrace.runtime.entropy import SeededEntropy
from headrace.storage.providers.memory import MemoryChunkProvider
from headrace.storage.providers.wrappers.retrying import RetryingChunkProvider
from headrace.testing.simulation import simulate
from headrace.testing.storage_faults import Fault, FaultyChunkProvider, fail_reads

CONTENT = (bytes(range(251)) * (3 * MIB // 251 + 1))[: 3 * MIB + 5]


class CountingProvider(FaultyChunkProvider):
    """Notes the size of every read that is tried."""

    def __init__(self) -> None:
        super().__init__(MemoryChunkProvider())
        self.tried: list[int] = []

    async def read(self, name: str, offset: int, length: int) -> memoryview:
        self.tried.append(length)
        return await super().read(name, offset, length)


@pytest.fixture
def simulated():
    """Runs a scenario with a provider that holds CONTENT as ``c``, and the one that repeats around it."""

    def run(scenario):
        async def with_providers(seed):
            store = CountingProvider()
            await store.create("c", [CONTENT])
            await scenario(store, RetryingChunkProvider(store, 60.0), SeededEntropy(seed).randbelow)

        for seed in range(5):
            simulate(seed, lambda _, seed=seed: with_providers(seed))

    return run


@pytest.mark.slow
def test_reads_succeed_although_many_requests_fail(simulated):
    async def scenario(store, provider, draw):
        store.on_read = lambda name: fail_reads(name) if draw(10) == 0 else None
        failures = 0
        for _ in range(20):
            try:
                assert await provider.read("c", 0, len(CONTENT)) == CONTENT
            except StorageReadError:  # three times in a row
                failures += 1
        assert failures <= 3

    simulated(scenario)


def test_a_store_that_refuses_for_ever_is_asked_a_few_times(simulated):
    async def scenario(store, provider, _):
        store.on_read = fail_reads
        with pytest.raises(StorageReadError):
            await provider.read("c", 0, len(CONTENT))
        assert len(store.tried) == 3

    simulated(scenario)


def test_what_the_store_knows_for_sure_is_asked_once(simulated):
    async def scenario(store, provider, _):
        with pytest.raises(NoSuchChunkError):
            await provider.read("d", 0, 1)
        with pytest.raises(ChunkOffsetError):
            await provider.read("c", 0, len(CONTENT) + 1)
        assert len(store.tried) == 2

    simulated(scenario)


@pytest.mark.parametrize("fault", [Fault.FAIL, Fault.LOSE_REPLY, Fault.TEAR, Fault.FULL, Fault.HANG])
def test_a_write_whose_outcome_is_unknown_is_not_repeated(fault):
    async def scenario(_):
        store = CountingProvider()
        provider = RetryingChunkProvider(store, 60.0)
        await provider.create("c", [b"abc"])
        store.calls.clear()
        store.inject = lambda _: fault
        kind = StorageFullError if fault is Fault.FULL else StorageWriteError
        with pytest.raises(kind):
            await provider.append("c", 3, [b"defg"])
        with pytest.raises(kind):
            await provider.create("d", [b"abcd"])
        assert [(call.kind, call.name) for call in store.calls] == [("append", "c"), ("create", "d")]

    simulate(0, scenario, limit_s=300)


def test_a_store_that_does_not_answer_is_given_up_on(simulated):
    async def scenario(store, provider, _):
        store.delay_s = lambda _: 1e6
        with pytest.raises(StorageReadError, match="reading c took more than 12"):
            await provider.read("c", 0, 1)
        with pytest.raises(StorageWriteError, match="deleting c took more than 60"):
            await provider.delete("c")

    simulated(scenario)
