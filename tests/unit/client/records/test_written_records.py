"""Writers of every kind to a stream with records, and to one without, against a store in memory."""

import asyncio
from datetime import UTC, datetime

import pyarrow as pa
import pytest

from headrace.client.blocking import connect as connect_blocking
from headrace.client.framing.event_framing import find_frames, payloads
from headrace.client.records.envelope import encode_headers, prefix_of
from headrace.errors import InvalidArgumentError, NoSuchStreamError, UnsupportedError
from headrace.limits import EVENT_BYTES_MAX

NOON = datetime(2026, 11, 25, 12, tzinfo=UTC)
NOON_MS = 1_795_608_000_000
RECORDS = ["headrace.records=1"]


def record(value, key=None, time_ms=NOON_MS, headers=None):
    return prefix_of(key, time_ms, encode_headers(headers)) + value


def stored(system, stream="t"):
    found = system.controller.data_of("s", stream)
    return [event for data in found.values() if data for event in payloads(data, find_frames(data))]


@pytest.mark.parametrize("segments", [1, 3])
async def test_a_writer_wraps_what_it_is_given(system, client, segments):
    system.controller.create("s", "t", segments, tags=RECORDS)
    async with client.event_writer("s", "t") as writer:
        await writer.write(b"one", key="k", time=NOON, headers={"h": "x"})
        await writer.write("", time=NOON_MS)
        await writer.write_many([b"two", b"three"], ["a", "b"], times=NOON, headers=[None, {"h": b""}])
        await writer.write_many(pa.array([b"four"]), pa.array(["k"]), times=pa.array([1]))
        await writer.write_atomic([b"five", b"six"], "k", times=[1, 2])
    assert sorted(stored(system)) == sorted(
        [
            record(b"one", "k", headers={"h": b"x"}),
            record(b""),
            record(b"two", "a"),
            record(b"three", "b", headers={"h": b""}),
            record(b"four", "k", 1),
            record(b"five", "k", 1),
            record(b"six", "k", 2),
        ]
    )


async def test_a_writer_with_a_name_wraps_too_and_stores_each_number_once(system, client):
    system.controller.create("s", "t", 2, tags=RECORDS)
    for _ in range(2):
        async with client.event_writer("s", "t", name="etl") as writer:
            await writer.write(b"one", key="k", time=NOON, headers={"h": "x"}, number=0)
            await writer.write_many([b"two", b"three"], "k", times=[1, 2], numbers=1)
            await writer.write_many(pa.array([b"four", b"five"]), "k", times=pa.array([3, 4]), numbers=3)
            await writer.write_atomic([b"six"], "k", times=[5], number=5)
    assert stored(system) == [
        record(b"one", "k", headers={"h": b"x"}),
        *(record(value, "k", at) for at, value in enumerate([b"two", b"three", b"four", b"five", b"six"], 1)),
    ]


async def test_records_of_many_of_which_one_is_large_are_written_in_their_order(system, client):
    system.controller.create("s", "t", tags=RECORDS)
    large = b"x" * (EVENT_BYTES_MAX - 10)  # with what is in front of it too much for one append
    async with client.event_writer("s", "t") as writer:
        await writer.write_many([b"before", large, b"behind"], "k", times=NOON)
        await writer.write(large, "k", time=NOON)
    wanted = [record(each, "k") for each in (b"before", large, b"behind", large)]
    assert [len(each) for each in stored(system)] == [len(each) for each in wanted]
    assert stored(system) == wanted


async def test_the_call_that_writes_at_once_wraps_too(system, client):
    system.controller.create("s", "t", tags=RECORDS)
    values = [{"n": 1}, {"n": 2}]
    await client.write(
        "s", "t", values, key=lambda value: str(value["n"]), time=NOON, headers={"h": "x"}, serializer="json"
    )
    assert stored(system) == [
        record(b'{"n":1}', "1", headers={"h": b"x"}),
        record(b'{"n":2}', "2", headers={"h": b"x"}),
    ]


async def test_a_transaction_wraps_and_its_events_have_the_keys_they_were_given(system, client):
    system.controller.create("s", "t", tags=RECORDS)
    async with client.txn_writer("s", "t") as writer, await writer.begin() as transaction:
        transaction.write(b"one", time=NOON)
        transaction.write(b"two", "k", time=NOON)
        transaction.write_many([b"three"], ["k"], times=NOON)
        await transaction.flush()
        shadows = [each for name, each in system.store.segments.items() if "#transaction" in name]
        (data,) = [bytes(each.data) for each in shadows]
    assert payloads(data, find_frames(data)) == [record(b"one"), record(b"two", "k"), record(b"three", "k")]


async def test_a_plain_stream_takes_keys_by_name_and_no_times(system, client):
    system.controller.create("s", "t")
    async with client.event_writer("s", "t") as writer:
        with pytest.raises(InvalidArgumentError, match="s/t has no time and no headers"):
            writer.write(b"x", time=NOON)
        with pytest.raises(InvalidArgumentError, match="s/t has no time and no headers"):
            writer.write_many([b"x"], headers={"h": b"x"})
        await writer.write(b"one", key="k")
    with pytest.raises(InvalidArgumentError, match="s/t has no time and no headers"):
        await client.write("s", "t", [b"x"], time=NOON)
    assert stored(system) == [b"one"]


async def test_records_of_a_version_to_come_are_not_written(system, client):
    system.controller.create("s", "t", tags=["headrace.records=2"])
    with pytest.raises(UnsupportedError, match=r"s/t has the tag 'headrace.records=2'.*use a newer one"):
        await client.event_writer("s", "t")
    async with client.txn_writer("s", "t") as writer:
        with pytest.raises(UnsupportedError):
            await writer.begin()


async def test_writers_of_threads_wrap_in_the_thread_that_writes(system):
    system.controller.create("s", "t", tags=RECORDS)
    system.controller.create("s", "plain")

    def write():
        with connect_blocking(system.uri) as client:
            with client.event_writer("s", "t", serializer="json") as writer:
                for n in range(50):
                    writer.write(n, key="k", time=NOON, headers={"n": str(n)})
                writer.write_many([7, 8], times=[1, 2])
                writer.write_many(pa.array([b"9"]), "k", times=NOON)
                writer.write_atomic([10], "k", times=NOON)
            with client.event_writer("s", "plain") as writer:
                with pytest.raises(InvalidArgumentError, match="s/plain has no time"):
                    writer.write(b"x", time=NOON)
                writer.write(b"x", key="k").wait()

    await asyncio.to_thread(write)
    assert stored(system) == [
        *(record(b"%d" % n, "k", headers={"n": b"%d" % n}) for n in range(50)),
        record(b"7", None, 1),
        record(b"8", None, 2),
        record(b"9", "k"),
        record(b"10", "k"),
    ]
    assert stored(system, "plain") == [b"x"]


async def test_a_stream_that_was_made_anew_is_written_as_it_is_now(system, client):
    system.controller.create("s", "t")
    async with client.txn_writer("s", "t") as writer:
        async with await writer.begin():
            pass
        system.controller.create("s", "t", tags=RECORDS)
        async with await writer.begin() as transaction:
            transaction.write(b"one", time=NOON)
        with pytest.raises(NoSuchStreamError):
            await client.txn_writer("s", "u").begin()
