import asyncio
import gc
import weakref

import pytest

from headrace.client import TransactionStatus
from headrace.client.framing.event_framing import find_frames, payloads
from headrace.client.writer import txn_writer
from headrace.errors import InvalidArgumentError, NoSuchStreamError, TransactionStateError
from headrace.model.key_space import FULL_RANGE, split_evenly


def stored(system, stream="t"):
    found = []
    for _, data in sorted(system.controller.data_of("s", stream).items()):
        found += payloads(data, find_frames(data))
    return found


async def test_events_of_a_transaction_appear_together_at_its_commit(system, client):
    system.controller.create("s", "t", 3)
    async with client.txn_writer("s", "t") as writer:
        transaction = await writer.begin()
        acks = [transaction.write(b"%d" % number, f"key{number}") for number in range(20)]
        for ack in acks:
            await ack
        await transaction.flush()
        assert stored(system) == []
        await transaction.commit(wait=True)
        assert sorted(stored(system), key=int) == [b"%d" % number for number in range(20)]
        assert await transaction.status() is TransactionStatus.COMMITTED
        assert not transaction.is_open


async def test_events_without_a_key_stay_together(system, client):
    system.controller.create("s", "t", 4)
    async with client.txn_writer("s", "t") as writer, await writer.begin() as transaction:
        for number in range(50):
            transaction.write(b"%d" % number)
    assert sorted(len(data) > 0 for data in system.controller.data_of("s", "t").values()) == [0, 0, 0, 1]


async def test_an_exception_in_its_block_aborts_a_transaction(system, client):
    system.controller.create("s", "t")
    async with client.txn_writer("s", "t") as writer:
        transaction = await writer.begin()
        with pytest.raises(ZeroDivisionError):
            await _fail_within(transaction)
        assert await transaction.status() is TransactionStatus.ABORTED
        with pytest.raises(TransactionStateError):
            await transaction.commit()
        await transaction.abort()
    assert stored(system) == []


async def _fail_within(transaction):
    async with transaction:
        transaction.write(b"never")
        raise ZeroDivisionError


async def test_a_transaction_that_ended_elsewhere_fails_its_writes(system, client):
    system.controller.create("s", "t")
    async with client.txn_writer("s", "t") as writer:
        transaction = await writer.begin()
        await transaction.write(b"one")
        system.controller.abort_now(transaction.txn_id)
        with pytest.raises(TransactionStateError):
            await transaction.write(b"two")
        with pytest.raises(TransactionStateError):
            transaction.write(b"three")
        with pytest.raises(TransactionStateError):
            await transaction.commit()


async def test_a_transaction_outlives_a_scale_of_its_stream(system, client):
    system.controller.create("s", "t")
    async with client.txn_writer("s", "t") as writer:
        transaction = await writer.begin()
        system.controller.scale_now("s", "t", [0], split_evenly(FULL_RANGE, 2))
        await transaction.write(b"into the old epoch", "key")
        system.controller.epochs["s", "t"].pop()  # the fake does not roll
        await transaction.commit()
    assert stored(system) == [b"into the old epoch"]


async def test_another_process_may_write_and_commit_a_transaction(system, client):
    system.controller.create("s", "t")
    async with client.txn_writer("s", "t") as writer:
        first = await writer.begin()
        await first.write(b"one")
        txn_id = first.detach()
        second = await writer.resume(txn_id)
        await second.write(b"two")
        await second.flush()
        second.detach()
        await client.transactions.commit("s", "t", txn_id)
        assert stored(system) == [b"one", b"two"]
        with pytest.raises(TransactionStateError):
            await writer.resume(txn_id)


async def test_open_transactions_are_pinged_until_they_end(system, client, monkeypatch):
    monkeypatch.setattr(txn_writer, "ping_interval_s", lambda _: 0.005)
    system.controller.create("s", "t")
    async with client.txn_writer("s", "t", lease_ms=10_000) as writer:
        transaction = await writer.begin()
        async with asyncio.timeout(120):
            await system.controller.pinged.wait()
        await transaction.commit()
        assert not writer.statistics().open


async def test_a_detached_transaction_is_kept_alive_on_request(system, client, monkeypatch):
    monkeypatch.setattr(txn_writer, "ping_interval_s", lambda _: 0.005)
    system.controller.create("s", "t")
    async with client.txn_writer("s", "t", lease_ms=10_000) as writer:
        transaction = await writer.begin()
        await transaction.write(b"handed on")
        txn_id = transaction.detach(keep_alive=True)
        async with asyncio.timeout(120):
            await system.controller.pinged.wait()
    assert await transaction.status() is TransactionStatus.OPEN
    await client.transactions.commit("s", "t", txn_id)
    assert stored(system) == [b"handed on"]


async def test_closing_a_writer_aborts_what_is_open(system, client):
    system.controller.create("s", "t")
    writer = client.txn_writer("s", "t")
    transaction = await writer.begin()
    transaction.write(b"never")
    await writer.close()
    assert await transaction.status() is TransactionStatus.ABORTED
    assert stored(system) == []


async def test_lost_connections_do_not_change_what_is_committed(system, client):
    system.controller.create("s", "t", 2)
    system.store.faults.drop_after_append = 0.2
    system.store.faults.drop_before_append = 0.2
    async with client.txn_writer("s", "t") as writer:
        for number in range(10):
            async with await writer.begin() as transaction:
                for part in range(20):
                    transaction.write(b"%d-%d" % (number, part), f"key{part % 5}")
                    if part % 6 == 0:
                        await asyncio.sleep(0)
    expected = [b"%d-%d" % (number, part) for number in range(10) for part in range(20)]
    assert sorted(stored(system)) == sorted(expected)


async def test_a_missing_stream_and_a_short_lease_are_refused(system, client):
    with pytest.raises(NoSuchStreamError):
        await client.txn_writer("s", "missing").begin()
    with pytest.raises(InvalidArgumentError):
        client.txn_writer("s", "t", lease_ms=9_999)


@pytest.mark.slow
async def test_a_client_forgets_the_writers_that_were_closed(client):
    async with client.txn_writer("s", "t") as writer:
        forgotten = weakref.ref(writer)
    del writer
    gc.collect()
    assert forgotten() is None
