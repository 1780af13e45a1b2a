import asyncio

import pytest

from headrace.controller.store.layout import permanent_tables
from headrace.controller.transactions.txn_ids import (
    BLOCK,
    TxnIds,
    epoch_of_txn,
    generalised_id,
    shadow_segment,
)
from headrace.testing.memory_metadata_store import MemoryStore


async def make_store():
    store = MemoryStore()
    for table in permanent_tables(1):
        await store.create_table(table)
    return store


@pytest.mark.slow
async def test_ids_of_many_controllers_never_meet():
    store = await make_store()
    sources = [TxnIds(store) for _ in range(4)]

    async def take(source):
        return [await source.next(3) for _ in range(3 * BLOCK // 2)]

    taken = await asyncio.gather(*(take(source) for source in sources for _ in range(2)))
    ids = [txn_id for each in taken for txn_id in each]
    assert len(set(ids)) == len(ids)
    assert {epoch_of_txn(txn_id) for txn_id in ids} == {3}
    assert all(txn_id & (1 << 63) == 0 for txn_id in ids)


async def test_a_restart_goes_on_above_everything_that_was_handed_out():
    store = await make_store()
    last = 0
    for _ in range(5):
        source = TxnIds(store)
        first = await source.next(0)
        assert first > last or last == 0
        last = await source.next(0)


def test_names_are_those_of_the_protocol():
    txn_id = (0x0000000100000000 << 64) | 0x2A
    assert generalised_id(0, txn_id) == 1 << 32
    assert (
        shadow_segment("demo/orders/0.#epoch.1", txn_id)
        == "demo/orders/0.#epoch.1#transaction.0000000100000000000000000000002a"
    )
