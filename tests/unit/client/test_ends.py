"""How writers and clients end: everything is durable, or the program is told what is not."""

import asyncio

import pytest

from headrace.client import ClientConfig, connect
from headrace.client.framing.event_framing import find_frames, payloads
from headrace.errors import (
    ClosedError,
    HeadraceError,
    LostWrites,
    NotDurableError,
    PreconditionError,
    StreamSealedError,
    TransactionStateError,
    UnknownOutcomeError,
)

SHORT = ClientConfig(close_timeout_s=0.01)


def stored(system, stream="t"):
    found = []
    for _, data in sorted(system.controller.data_of("s", stream).items()):
        found += payloads(data, find_frames(data))
    return found


def stall(system):
    """Store what comes and acknowledge nothing."""
    system.store.ack_gate = asyncio.Event()


def go_on(system):
    system.store.ack_gate.set()


async def interrupted(coroutine):
    """Begin something and cancel it once it waits."""
    task = asyncio.ensure_future(coroutine)
    await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def within(awaitable):
    """A wait that does not end fails."""
    async with asyncio.timeout(60):
        return await awaitable


# ------------------------------------------------------------------------------ the end of a client


async def test_the_end_of_a_client_makes_durable_what_its_writers_took(system):
    system.controller.create("s", "t", 3)
    system.controller.create("s", "bytes")
    async with connect(system.uri) as client:
        first = await client.event_writer("s", "t")
        second = await client.event_writer("s", "t")
        raw = await client.byte_writer("s", "bytes")
        for number in range(2000):
            first.write(b"%d" % number, f"key{number % 7}")
        acks = [second.write_many([b"a", b"b"] * 100), second.write_atomic([b"c", b"d"], "key")]
        raw.write(b"some bytes")
    assert all(ack.done() for ack in acks)
    assert len(stored(system)) == 2202
    assert system.controller.data_of("s", "bytes") == {0: b"some bytes"}
    for writer in (first, second, raw):
        await within(writer.flush())
        await within(writer.close())
        with pytest.raises(ClosedError):
            writer.write(b"late")


async def test_the_end_of_a_client_says_how_much_of_which_stream_is_not_durable(system):
    system.controller.create("s", "t")
    system.controller.create("s", "u", 2)
    system.controller.create("s", "bytes")
    client = connect(system.uri, SHORT)
    stall(system)
    writers = [await client.event_writer("s", name) for name in ("t", "t", "u")]
    acks = [writer.write(b"%d" % number, f"{number}") for number in range(100) for writer in writers]
    raw = await client.byte_writer("s", "bytes")
    acks.append(raw.write(bytes(3000)))
    with pytest.raises(
        NotDurableError, match="200 events of s/t, 100 events of s/u, 3000 bytes of s/bytes"
    ) as caught:
        await within(client.close())
    assert caught.value.lost == (
        LostWrites("s/t", 200, "events"),
        LostWrites("s/u", 100, "events"),
        LostWrites("s/bytes", 3000, "bytes"),
    )
    assert isinstance(caught.value.__cause__, ClosedError)
    assert isinstance(caught.value, UnknownOutcomeError)
    for ack in acks:
        with pytest.raises(HeadraceError):
            await within(ack)
    await client.close()  # it was said once
    for writer in (*writers, raw):
        with pytest.raises(HeadraceError):
            await within(writer.flush())
    go_on(system)


async def test_what_a_program_was_told_already_is_not_said_again_by_the_end_of_its_client(system):
    system.controller.create("s", "t")
    async with connect(system.uri) as client:
        awaiting, flushing, closing = [await client.event_writer("s", "t") for _ in range(3)]
        await awaiting.write(b"first")
        system.controller.seal_now("s", "t")
        with pytest.raises(StreamSealedError):
            await awaiting.write(b"second")
        flushing.write(b"third")
        with pytest.raises(StreamSealedError):
            await flushing.flush()
        closing.write(b"fourth")
        with pytest.raises(StreamSealedError):
            await closing.close()
    assert stored(system) == [b"first"]


async def test_a_failure_that_no_caller_was_told_is_said_by_the_end_of_the_client(system):
    system.controller.create("s", "t")
    client = connect(system.uri)
    writer = await client.event_writer("s", "t")
    await writer.write(b"first")
    system.controller.seal_now("s", "t")
    ack = writer.write(b"second")
    while not ack.done():  # noqa: ASYNC110 - awaiting it would tell
        await asyncio.sleep(0.001)
    with pytest.raises(NotDurableError, match="1 events of s/t") as caught:
        await client.close()
    assert isinstance(caught.value.__cause__, StreamSealedError)


async def fail_after_writing(opened):
    async with opened as client:
        writer = await client.event_writer("s", "t")
        writer.write(b"event")
        raise ZeroDivisionError


async def test_the_error_of_a_block_goes_on_with_a_note_of_what_is_not_durable(system):
    system.controller.create("s", "t")
    stall(system)
    with pytest.raises(ZeroDivisionError) as caught:
        await fail_after_writing(connect(system.uri, SHORT))
    assert ["1 events of s/t" in note for note in caught.value.__notes__] == [True]
    go_on(system)


async def test_the_error_of_a_block_does_not_lose_its_events(system):
    system.controller.create("s", "t")
    with pytest.raises(ZeroDivisionError) as caught:
        await fail_after_writing(connect(system.uri))
    assert not hasattr(caught.value, "__notes__")
    assert stored(system) == [b"event"]


async def test_the_error_of_a_block_of_a_writer_is_not_hidden_by_its_end(system, client):
    system.controller.create("s", "t")

    async def fail():
        async with client.event_writer("s", "t") as writer:
            await writer.write(b"event")
            system.controller.seal_now("s", "t")
            writer.write(b"lost")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError) as caught:
        await fail()
    assert ["StreamSealedError" in note for note in caught.value.__notes__] == [True]


async def test_a_closed_client_makes_no_writer(system):
    system.controller.create("s", "t")
    client = connect(system.uri)
    await client.close()
    for opening in (client.event_writer("s", "t"), client.byte_writer("s", "t")):
        with pytest.raises(ClosedError):
            await opening
    with pytest.raises(ClosedError):
        client.txn_writer("s", "t")


# ------------------------------------------------------------------------------ interrupted ends


async def test_an_interrupted_close_of_a_writer_may_be_repeated(system, client):
    system.controller.create("s", "t", 2)
    stall(system)
    writer = await client.event_writer("s", "t")
    acks = [writer.write(b"%d" % number, f"{number}") for number in range(2000)]
    await interrupted(writer.close())
    with pytest.raises(ClosedError):
        writer.write(b"late")
    await interrupted(writer.flush())
    assert not any(ack.done() for ack in acks)
    asyncio.get_running_loop().call_later(0.01, go_on, system)
    await within(writer.close())
    assert all(ack.done() for ack in acks)
    assert len(stored(system)) == 2000


async def test_a_flush_after_an_interrupted_close_waits_for_the_rest(system, client):
    system.controller.create("s", "t")
    stall(system)
    writer = await client.byte_writer("s", "t")
    ack = writer.write(b"some bytes")
    await interrupted(writer.close())
    asyncio.get_running_loop().call_later(0.01, go_on, system)
    await within(writer.flush())
    assert ack.done()
    await writer.close()


async def test_an_interrupted_close_of_a_client_may_be_repeated(system):
    system.controller.create("s", "t")
    stall(system)
    client = connect(system.uri)
    writer = await client.event_writer("s", "t")
    ack = writer.write(b"event")
    await interrupted(client.close())
    assert not ack.done()
    asyncio.get_running_loop().call_later(0.01, go_on, system)
    await within(client.close())
    assert ack.done()
    assert stored(system) == [b"event"]


async def test_what_is_written_right_before_the_end_of_a_client_that_cannot_wait_is_settled(system):
    """The task that connects is cancelled before it ran."""
    system.controller.create("s", "t", 2)
    client = connect(system.uri, ClientConfig(close_timeout_s=0.0))
    writer = await client.event_writer("s", "t")
    acks = [writer.write(b"event", key) for key in "abcdef"]
    flushing = asyncio.ensure_future(writer.flush())
    with pytest.raises(NotDurableError, match="6 events of s/t"):
        await within(client.close())
    for waiting in (*acks, flushing, writer.flush()):
        with pytest.raises(HeadraceError):
            await within(waiting)


# ------------------------------------------------------------------------------ the end of a loop


async def test_a_loop_that_ends_before_its_client_waits_for_its_events(system, caplog):
    system.controller.create("s", "t", 3)
    kept = []

    async def main():
        client = connect(system.uri)
        writer = await client.event_writer("s", "t")
        kept.append((writer, [writer.write(b"%d" % number, f"{number}") for number in range(100)]))

    await asyncio.to_thread(lambda: asyncio.run(main()))
    assert len(stored(system)) == 100
    ((writer, acks),) = kept
    assert all(ack.done() and ack.error() is None for ack in acks)
    await within(writer.flush())
    assert not caplog.records


async def test_a_loop_that_ends_before_its_client_says_what_is_not_durable(system, caplog):
    system.controller.create("s", "t", 3)
    stall(system)
    kept = []

    async def main():
        client = connect(system.uri, SHORT)
        writer = await client.event_writer("s", "t")
        kept.append((writer, [writer.write(b"%d" % number, f"{number}") for number in range(100)]))

    await asyncio.to_thread(lambda: asyncio.run(main()))
    assert ["100 events of s/t" in record.getMessage() for record in caplog.records] == [True]
    ((writer, acks),) = kept
    for ack in acks:
        with pytest.raises(HeadraceError):
            await within(ack)
    for wait in (writer.flush, writer.drain, writer.close):
        with pytest.raises(HeadraceError):
            await within(wait())
    go_on(system)


async def test_a_writer_goes_on_after_every_task_of_its_loop_was_cancelled(system, client):
    system.controller.create("s", "t", 3)
    writer = await client.event_writer("s", "t")
    acks = [writer.write(b"%d" % number, f"{number}") for number in range(100)]
    me = asyncio.current_task()
    for task in asyncio.all_tasks() - {me}:
        if "connect" in task.get_name():
            task.cancel()
    for ack in acks:
        await within(ack)
    assert len(stored(system)) == 100


# ------------------------------------------------------------------------------ transactions


async def ended_transaction(system, client, how):
    writer = client.txn_writer("s", "t")
    transaction = await writer.begin()
    await transaction.write(b"event")
    if how == "committed":
        await transaction.commit()
    elif how == "aborted":
        await transaction.abort()
    elif how == "detached":
        transaction.detach()
    else:
        system.controller.abort_now(transaction.txn_id)
        with pytest.raises(TransactionStateError):
            await transaction.write(b"late")
    return transaction


VERBS = {
    "write": lambda transaction: transaction.write(b"late"),
    "write_many": lambda transaction: transaction.write_many([b"late", b"later"]),
    "write_atomic": lambda transaction: transaction.write_atomic([b"late", b"later"], "key"),
    "flush": lambda transaction: transaction.flush(),
    "drain": lambda transaction: transaction.drain(),
    "commit": lambda transaction: transaction.commit(),
    "abort": lambda transaction: transaction.abort(),
    "detach": lambda transaction: transaction.detach(),
}


async def call(transaction, verb):
    result = VERBS[verb](transaction)
    if asyncio.iscoroutine(result):
        await result


@pytest.mark.slow
@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("how", ["committed", "aborted", "detached", "no longer open"])
async def test_a_transaction_refuses_every_verb_with_its_state_once_it_has_ended(system, client, how, verb):
    system.controller.create("s", "t", 2)
    transaction = await ended_transaction(system, client, how)
    if verb == "abort" and how in ("aborted", "no longer open"):
        await transaction.abort()  # it is what was asked for
        return
    with pytest.raises(TransactionStateError, match=f"is {how}"):
        await call(transaction, verb)
    assert not transaction.is_open
    await transaction.close()


async def test_a_transaction_that_is_being_committed_takes_no_event(system, client):
    system.controller.create("s", "t")
    stall(system)
    transaction = await client.txn_writer("s", "t").begin()
    transaction.write(b"event")
    committing = asyncio.ensure_future(transaction.commit())
    await asyncio.sleep(0)
    for verb in ("write", "write_many", "flush", "detach"):
        with pytest.raises(TransactionStateError, match="is being committed"):
            await call(transaction, verb)
    go_on(system)
    await within(committing)
    assert stored(system) == [b"event"]


async def test_an_interrupted_commit_leaves_the_transaction_open(system, client):
    system.controller.create("s", "t")
    stall(system)
    transaction = await client.txn_writer("s", "t").begin()
    transaction.write(b"one")
    await interrupted(transaction.commit())
    transaction.write(b"two")
    go_on(system)
    await within(transaction.commit())
    assert stored(system) == [b"one", b"two"]


async def test_a_transaction_with_unacknowledged_events_is_not_detached(system, client):
    system.controller.create("s", "t")
    stall(system)
    transaction = await client.txn_writer("s", "t").begin()
    transaction.write(b"one")
    with pytest.raises(PreconditionError, match="flush it first"):
        transaction.detach()
    transaction.write(b"two")
    go_on(system)
    await within(transaction.flush())
    transaction.detach()


async def test_the_end_of_a_client_waits_for_a_commit_and_leaves_the_rest_uncommitted(system):
    system.controller.create("s", "t")
    stall(system)
    client = connect(system.uri)
    writer = client.txn_writer("s", "t")
    committed, left = await writer.begin(), await writer.begin()
    committed.write(b"committed")
    ack = left.write(b"left")
    committing = asyncio.ensure_future(committed.commit())
    await asyncio.sleep(0)
    asyncio.get_running_loop().call_later(0.01, go_on, system)
    await within(client.close())
    await within(committing)
    assert stored(system) == [b"committed"]
    with pytest.raises(TransactionStateError, match="aborted"):
        left.write(b"late")
    assert ack.done()
    with pytest.raises(ClosedError):
        await writer.begin()
