"""The real Rust client (the ``pravega`` wheel), unpatched and with default options, against a real server."""

import asyncio
import collections
import contextlib
import socket
import sys

import pytest

from headrace.client import connect
from headrace.client.blocking import connect as connect_blocking
from headrace.model.hashing import SEED_ROUTING_KEY, murmur3
from headrace.model.key_space import hash_to_position
from headrace.testing import LocalServer
from tests.servers import running

HAS_WHEEL = sys.version_info < (3, 12)

if HAS_WHEEL:
    import pravega_client as wheel

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.skipif(not HAS_WHEEL, reason="the wheel pravega has no build for Python 3.12 and later"),
]


@pytest.fixture
def manager(server, scope):
    made = wheel.StreamManager(server.uri)
    made.create_scope(scope)
    return made


async def read_events(reader, count, timeout_s=30):
    """Events from one reader until it has ``count`` of them."""
    seen = []
    while len(seen) < count:
        part = await asyncio.wait_for(reader.get_segment_slice_async(), timeout_s)
        seen += [bytes(event.data()) for event in part]
        reader.release_segment(part)
    return seen


def test_scopes_are_created_listed_and_deleted(server):
    manager = wheel.StreamManager(server.uri)
    names = [f"listed{number}" for number in range(5)]
    assert [manager.create_scope(name) for name in names] == [True] * 5
    assert manager.create_scope(names[0]) is False
    assert set(names) <= set(manager.list_scope())
    assert [manager.delete_scope(name) for name in names] == [True] * 5
    assert not set(names) & set(manager.list_scope())


def test_streams_have_policies_and_tags(manager, scope):
    scaling = wheel.StreamScalingPolicy.auto_scaling_policy_by_event_rate(10, 2, 3)
    retention = wheel.StreamRetentionPolicy.by_size(1 << 20)
    assert manager.create_stream_with_policy(scope, "tagged", scaling, retention, ["red", "blue"]) is True
    assert manager.create_stream_with_policy(scope, "tagged", scaling, retention, ["red"]) is False
    assert sorted(manager.get_stream_tags(scope, "tagged")) == ["blue", "red"]
    fixed = wheel.StreamScalingPolicy.fixed_scaling_policy(3)
    assert manager.update_stream_with_policy(
        scope, "tagged", fixed, wheel.StreamRetentionPolicy.none(), ["green"]
    )
    assert manager.get_stream_tags(scope, "tagged") == ["green"]
    assert manager.create_stream(scope, "plain", 2) is True
    assert {"tagged", "plain"} <= set(manager.list_stream(scope))


def test_streams_are_sealed_and_deleted(manager, scope):
    manager.create_stream(scope, "short", 2)
    writer = manager.create_writer(scope, "short")
    writer.write_event("last words", "key")
    writer.flush()
    assert manager.seal_stream(scope, "short") is True
    assert manager.seal_stream(scope, "short") is True
    assert manager.delete_stream(scope, "short") is True
    assert "short" not in manager.list_stream(scope)
    assert manager.delete_scope(scope) is True


async def test_events_written_by_the_wheel_are_read_by_the_wheel_in_order_per_key(manager, scope):
    manager.create_stream(scope, "events", 3)
    writer = manager.create_writer(scope, "events")
    for number in range(300):
        writer.write_event(f"{number % 7}:{number}", f"key-{number % 7}")
    writer.flush()
    group = manager.create_reader_group(f"group-{scope}", scope, "events")
    reader = group.create_reader("reader")
    by_key = collections.defaultdict(list)
    for event in await read_events(reader, 300):
        key, _, number = event.decode().partition(":")
        by_key[key].append(int(number))
    reader.reader_offline()
    assert by_key == {str(key): list(range(key, 300, 7)) for key in range(7)}


async def test_several_readers_share_a_group_and_miss_nothing(manager, scope):
    manager.create_stream(scope, "shared", 4)
    writer = manager.create_writer(scope, "shared")
    for number in range(400):
        writer.write_event(str(number), f"key-{number % 50}")
    writer.flush()
    group = manager.create_reader_group(f"group-{scope}", scope, "shared")
    readers = [group.create_reader(f"reader-{number}") for number in range(3)]
    seen = []
    done = asyncio.Event()

    async def read(reader):
        while not done.is_set():
            part = await reader.get_segment_slice_async()
            if part is None:
                continue
            seen.extend(int(bytes(event.data())) for event in part)
            reader.release_segment(part)
            if len(seen) >= 400:
                done.set()

    tasks = [asyncio.ensure_future(read(reader)) for reader in readers]
    await asyncio.wait_for(done.wait(), 60)
    for task in tasks:
        task.cancel()
    assert sorted(seen) == list(range(400))


async def test_a_reader_that_leaves_hands_over_where_it_stopped(manager, scope):
    manager.create_stream(scope, "handover", 1)
    writer = manager.create_writer(scope, "handover")
    for number in range(100):
        writer.write_event(str(number), "key")
    writer.flush()
    group = manager.create_reader_group(f"group-{scope}", scope, "handover")
    first = group.create_reader("first")
    part = await asyncio.wait_for(first.get_segment_slice_async(), 120)
    seen = [int(bytes(next(part).data())) for _ in range(30)]
    first.release_segment(part)
    first.reader_offline()
    second = group.create_reader("second")
    seen += [int(event) for event in await read_events(second, 70)]
    second.reader_offline()
    assert seen == list(range(100))


async def test_a_committed_transaction_becomes_visible_and_an_aborted_one_never(manager, scope):
    manager.create_stream(scope, "txn", 2)
    writer = manager.create_transaction_writer(scope, "txn", 7)
    aborted = writer.begin_txn()
    aborted.write_event("never", "key")
    aborted.abort()
    committed = writer.begin_txn()
    for number in range(20):
        committed.write_event(f"event {number}", f"key-{number % 3}")
    assert committed.is_open()
    committed.commit()
    resumed = writer.get_txn(committed.get_txn_id())
    group = manager.create_reader_group(f"group-{scope}", scope, "txn")
    reader = group.create_reader("reader")
    events = await read_events(reader, 20)
    reader.reader_offline()
    assert sorted(events) == sorted(f"event {number}".encode() for number in range(20))
    assert not resumed.is_open()


def read_exactly(file, count):
    """The wheel returns what one reply holds; a file object may be asked again."""
    data = b""
    while len(data) < count:
        part = bytearray(count - len(data))
        data += part[: file.readinto(part)]
    return data


def test_a_byte_stream_is_a_file(manager, scope):
    manager.create_stream(scope, "bytes", 1)
    file = manager.create_byte_stream(scope, "bytes")
    assert file.write(b"hello ") == 6
    assert file.write(b"world") == 5
    file.flush()
    assert file.current_tail_offset() == 11
    assert read_exactly(file, 11) == b"hello world"
    file.seek(6, 0)
    assert file.tell() == 6
    assert read_exactly(file, 5) == b"world"
    file.truncate(6)
    assert file.current_head_offset() == 6


async def test_the_wheel_and_our_client_read_each_other(manager, scope, server):
    manager.create_stream(scope, "mixed", 2)
    writer = manager.create_writer(scope, "mixed")
    for number in range(50):
        writer.write_event(f"wheel {number}", f"key-{number % 5}")
    writer.flush()
    async with connect(server.uri) as client:
        async with client.event_writer(scope, "mixed") as ours:
            for number in range(50):
                await ours.write(f"ours {number}".encode(), f"key-{number % 5}")
        async with client.event_reader(scope, "mixed", end="tail") as reader:
            read_by_us = [payload async for batch in reader.batches() for payload in batch.payloads()]
    group = manager.create_reader_group(f"group-{scope}", scope, "mixed")
    reader = group.create_reader("reader")
    read_by_wheel = await read_events(reader, 100)
    reader.reader_offline()
    expected = {f"{who} {number}".encode() for who in ("wheel", "ours") for number in range(50)}
    assert set(read_by_us) == expected
    assert len(read_by_us) == 100
    assert sorted(read_by_wheel) == sorted(read_by_us)


async def placed(client, scope, stream):
    """Return in which segments the events of a stream are, by what they say."""
    places = collections.defaultdict(set)
    async with client.event_reader(scope, stream, end="tail") as reader:
        async for event in reader:
            places[event.data.decode()].add(event.segment_id)
    return dict(places)


@pytest.mark.parametrize("key", ["hello", "z\x7f", "é", "ключ", "日本語", "😀", "a😀b", "x" * 40 + "ß"])
async def test_keys_that_are_not_ascii_are_hashed_by_the_wheel_with_zeros_behind_them(
    manager, scope, server, key
):
    """Only ASCII keys are in order across clients: docs/formats/key-space.md says so, and in which way."""
    segments = 64
    manager.create_stream(scope, "keys", segments)
    writer = manager.create_writer(scope, "keys")
    writer.write_event("wheel", key)
    writer.write_event("wheel", key)
    writer.flush()
    units = key.encode("utf-16-le")
    padded = units.ljust(2 * len(key.encode()), b"\0")
    assert (padded == units) is key.isascii()
    expected = {
        kind: {int(hash_to_position(murmur3(data, SEED_ROUTING_KEY)[0]) * segments)}
        for kind, data in (("wheel", padded), ("ours", units))
    }
    async with connect(server.uri) as client:
        async with client.event_writer(scope, "keys") as ours:
            await ours.write(b"ours", key)
            await ours.write_many([b"ours"] * 2, [key] * 2)
        assert await placed(client, scope, "keys") == expected


QUICK = {
    "SAMPLE_S": "0.1",
    "SLOW_S": "0.8",
    "HOT_S": "0.3",
    "COLD_S": "60",
    "COOL_DOWN_S": "0.5",
}


async def test_a_stream_that_splits_by_itself_is_read_whole_and_in_order_per_key(server_kind, tmp_path):
    environment = {f"HEADRACE_SCALING__{name}": value for name, value in QUICK.items()}
    with running(server_kind, tmp_path, environment=environment) as server:
        manager = wheel.StreamManager(server.uri)
        manager.create_scope("s")
        # A busy machine, or a log on bookies, writes less than half of what is meant below.
        policy = wheel.StreamScalingPolicy.auto_scaling_policy_by_event_rate(20, 2, 1)
        manager.create_stream_with_policy("s", "load", policy)
        writer = manager.create_writer("s", "load")
        group = manager.create_reader_group("group", "s", "load")
        reader = group.create_reader("reader")
        written, by_key = 0, collections.defaultdict(list)

        def write(numbers):
            for number in numbers:
                writer.write_event(f"{number % 20}:{number}", f"key-{number % 20}")
            writer.flush()

        async def read():
            while (part := await reader.get_segment_slice_async()) is None:
                pass
            for event in part:
                key, _, number = bytes(event.data()).decode().partition(":")
                by_key[int(key)].append(int(number))
            reader.release_segment(part)

        async with asyncio.timeout(60), connect(server.uri) as client:
            while len(await client.current_segments("s", "load")) < 4:
                await asyncio.to_thread(write, range(written, written + 60))
                written += 60
                await asyncio.sleep(0.1)  # some 500 events per second
                await read()
            while sum(map(len, by_key.values())) < written:
                await read()
        reader.reader_offline()
        assert by_key == {key: list(range(key, written, 20)) for key in range(20)}


def test_unknown_and_duplicate_things_are_refused(manager, scope):
    with pytest.raises(Exception, match=r"(?i)stream"):
        manager.create_stream("no-such-scope", "stream", 1)
    manager.create_stream(scope, "one", 1)
    assert manager.create_stream(scope, "one", 1) is False
    with pytest.raises(Exception, match=r"(?i)scope|empty"):
        manager.delete_scope(scope)


def has_ipv6():
    with contextlib.suppress(OSError), socket.socket(socket.AF_INET6) as probe:
        probe.bind(("::1", 0))
        return True
    return False


@pytest.mark.parametrize(
    ("options", "host"),
    [
        (("--host", "0.0.0.0", "--advertise", "127.0.0.2"), "127.0.0.1"),
        (("--host", "::1"), "[::1]"),
        (("--host", "::", "--advertise", "::1"), "127.0.0.1"),
    ],
)
def test_the_wheel_is_sent_to_the_address_that_is_advertised(options, host):
    if "::" in "".join(options) and not has_ipv6():
        pytest.skip("this machine has no IPv6")
    with LocalServer(None, "--in-memory", *options) as server:
        manager = wheel.StreamManager(f"tcp://{host}:{server.addresses['controller'].rpartition(':')[2]}")
        manager.create_scope("mapped")
        manager.create_stream("mapped", "events", 1)
        writer = manager.create_writer("mapped", "events")
        writer.write_event("an event", "key")
        writer.flush()
        with (
            connect_blocking(server.uri) as client,
            client.event_reader("mapped", "events", end="tail") as reader,
        ):
            assert [event.data for event in reader] == [b"an event"]
