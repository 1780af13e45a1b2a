import asyncio
import gc

import pytest

from headrace.controller.store.layout import txns_table
from headrace.controller.transactions import registry as registry_module
from headrace.controller.transactions.registry import Registry
from headrace.controller.transactions.txn_state import open_txn
from headrace.testing.memory_metadata_store import MemoryStore

UID = bytes(16)


async def test_other_work_goes_on_while_many_transactions_are_listed():
    store = MemoryStore()
    await store.create_table(txns_table(UID))
    registry = Registry(store)
    for number in range(5000):
        await registry.add(UID, number, open_txn("s", "t", 30_000, 0, 100_000))
    iterations, listing = 0, asyncio.ensure_future(registry.all_of(UID))
    while not listing.done():
        iterations += 1
        await asyncio.sleep(0)
    assert len(listing.result()) == 5000
    assert iterations >= 4


async def test_of_transactions_that_others_finish_a_bounded_number_is_remembered(monkeypatch):
    monkeypatch.setattr(registry_module, "STRANGERS_MAX", 3)
    monkeypatch.setattr(registry_module, "_REMOVED_ELSEWHERE_S", 0.01)
    store = MemoryStore()
    await store.create_table(txns_table(UID))
    registry = Registry(store)
    registry.is_owned = lambda scope, stream: False
    for number in range(5):
        await registry.add(UID, number, open_txn("s", "t", 30_000, 0, 100_000))
    assert registry.statistics()["OPEN"] == 3
    assert not registry.knows(UID, 0)
    assert registry.knows(UID, 4)
    waiting = asyncio.ensure_future(registry.wait_removed(UID, [4]))
    await asyncio.sleep(0)
    for number in range(3):
        await registry.find(UID, number)
    assert not registry.knows(UID, 4)
    await asyncio.sleep(0.05)  # it looks five times
    assert not waiting.done(), "what is forgotten is not finished"
    await registry.remove(UID, [4])
    await waiting
    registry.is_owned = lambda scope, stream: True
    assert len(await registry.all_of(UID)) == 4
    assert registry.statistics()["OPEN"] == 4
    registry.is_owned = lambda scope, stream: False
    registry.trim()
    assert registry.statistics()["OPEN"] == 3


@pytest.mark.slow
async def test_nothing_is_left_of_waiting_for_transactions_that_others_finish(monkeypatch):
    monkeypatch.setattr(registry_module, "_REMOVED_ELSEWHERE_S", 0.001)
    store = MemoryStore()
    await store.create_table(txns_table(UID))
    registry, other = Registry(store), Registry(store)

    async def wait_for(number):
        await registry.add(UID, number, open_txn("s", "t", 30_000, 0, 100_000))
        waiting = asyncio.ensure_future(registry.wait_removed(UID, [number]))
        await asyncio.sleep(0)
        await other.remove(UID, [number])
        await waiting

    await wait_for(0)
    before = count_futures()
    for number in range(1, 50):
        await wait_for(number)
    assert count_futures() < before + 10


def count_futures():
    gc.collect()
    return sum(type(each) is asyncio.Future for each in gc.get_objects())
