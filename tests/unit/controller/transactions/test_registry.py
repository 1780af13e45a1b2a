import asyncio

from headrace.controller.store.layout import txns_table
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
