import asyncio
import random
from array import array
from enum import StrEnum

import pyarrow as pa
import pytest

from headrace.client import ClientConfig, WriterConfig, connect
from headrace.client.framing.event_framing import find_frames, payloads
from headrace.client.reconnect_policy import ReconnectPolicy
from headrace.errors import (
    ClosedError,
    EventTooLargeError,
    HeadraceError,
    InvalidArgumentError,
    LostWrites,
    NoSuchStreamError,
    NotDurableError,
    StreamSealedError,
    ThrottledError,
    UnknownOutcomeError,
)
from headrace.limits import EVENT_BYTES_MAX
from headrace.model.key_space import FULL_RANGE, KeyRange, key_position, split_evenly
from tests.effort import seeds


def events_of(system, stream="t"):
    """Return the events of every segment by id."""
    stored = system.controller.data_of("s", stream)
    return {each: payloads(data, find_frames(data)) for each, data in stored.items() if data}


def in_order(system, stream="t"):
    """Return all events, older segments first: the order in which a key's events can be read."""
    return [event for _, events in sorted(events_of(system, stream).items()) for event in events]


def per_key(events):
    """Split events of the form ``key:number`` by key."""
    found = {}
    for event in events:
        key, _, number = event.decode().partition(":")
        found.setdefault(key, []).append(int(number))
    return found


async def test_an_awaited_event_is_stored(system, client):
    system.controller.create("s", "t")
    async with client.event_writer("s", "t") as writer:
        await writer.write(b"hello", "key")
        assert in_order(system) == [b"hello"]


async def test_events_written_in_one_turn_travel_in_one_block(system, client):
    system.controller.create("s", "t")
    async with client.event_writer("s", "t") as writer:
        await writer.write(b"first")
        acks = [writer.write(b"%d" % number) for number in range(100)]
        assert len({id(ack) for ack in acks}) == 1
        await acks[-1]
        assert all(ack.done() for ack in acks)
    assert system.store.counts["AppendBlockEnd"] == 2
    assert len(in_order(system)) == 101


async def test_blocks_overlap_and_acknowledgements_may_cover_several(system, client):
    system.controller.create("s", "t")
    system.store.ack_gate = asyncio.Event()
    config = WriterConfig(block_bytes_max=1024)
    async with client.event_writer("s", "t", config) as writer:
        acks = [writer.write(b"x" * 1000) for _ in range(20)]
        await system.store.stored(20_000)  # all were sent although none is acknowledged
        assert not any(ack.done() for ack in acks)
        system.store.coalesce = True
        system.store.ack_gate.set()
        await writer.flush()
        assert all(ack.done() for ack in acks)


async def _turns(count=3):
    for _ in range(count):
        await asyncio.sleep(0)


async def test_a_small_block_leaves_at_once_while_little_is_on_its_way(system, client):
    system.controller.create("s", "t")
    async with client.event_writer("s", "t") as writer:
        await writer.write(b"first")
        system.store.ack_gate = asyncio.Event()
        for number in range(1, 6):
            writer.write(b"%d" % number)
            await _turns()
            assert writer.statistics().blocks_in_flight == number
        system.store.ack_gate.set()
    assert in_order(system) == [b"first", b"1", b"2", b"3", b"4", b"5"]


@pytest.mark.parametrize("many", [False, True])
async def test_a_small_block_of_a_loaded_writer_waits_for_company_as_long_as_its_segment_will_answer(
    system, client, many
):
    system.controller.create("s", "t", 2)
    config = WriterConfig(window_bytes_max=1 << 20)

    def write(event):
        return writer.write_many([event], ["b"]) if many else writer.write(event, "b")

    async with client.event_writer("s", "t", config) as writer:
        await writer.write_many([b"first", b"first"], ["c", "b"])  # one for each segment
        system.store.ack_gate = asyncio.Event()
        write(b"x" * 300_000)  # more than a quarter of the window
        await _turns()
        assert writer.statistics().blocks_in_flight == 1
        for number in range(5):
            ack = write(b"%d" % number)
            await _turns()
            writer.check()
            assert writer.statistics().blocks_in_flight == 1
        writer.write(b"y", "c")  # nothing of this segment is on its way, so nothing would wake it
        await _turns()
        assert writer.statistics().blocks_in_flight == 2
        write(b"z" * 132_000)  # company enough
        await _turns()
        assert writer.statistics().blocks_in_flight == 3
        ack = write(b"last")
        await _turns()
        assert writer.statistics().blocks_in_flight == 3
        system.store.ack_gate.set()
        await ack  # by the acknowledgement alone: nobody flushes
        assert writer.bytes_held == 0
    stored = [event for event in in_order(system) if event not in (b"first", b"y")]
    assert stored == [b"x" * 300_000, b"0", b"1", b"2", b"3", b"4", b"z" * 132_000, b"last"]


async def test_events_reach_the_segment_of_their_key(system, client):
    system.controller.create("s", "t", 4)
    keys = [f"key{number}" for number in range(200)]
    async with client.event_writer("s", "t") as writer:
        for key in keys:
            writer.write(key.encode(), key)
    for segment_id, events in events_of(system).items():
        owned = split_evenly(FULL_RANGE, 4)[segment_id]
        assert all(owned.receives(key_position(event.decode())) for event in events)
    assert sorted(in_order(system)) == sorted(key.encode() for key in keys)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["list", "arrow", "strings", "chunked"])
async def test_many_events_are_routed_like_single_ones(system, client, kind):
    system.controller.create("s", "t", 3)
    events = [f"k{number % 7}:{number}".encode() for number in range(3000)]
    keys = [event.decode().partition(":")[0] for event in events]
    made = {
        "list": lambda: (events, keys),
        "arrow": lambda: (pa.array(events, pa.large_binary()), pa.array(keys).dictionary_encode()),
        "strings": lambda: (pa.array([event.decode() for event in events]), pa.array(keys)),
        "chunked": lambda: (
            pa.chunked_array([pa.array(events[:10]), pa.array([], pa.binary()), pa.array(events[10:])]),
            pa.chunked_array([pa.array(keys[:1000]), pa.array(keys[1000:])]),
        ),
    }[kind]()
    config = WriterConfig(block_bytes_max=1024)
    async with client.event_writer("s", "t", config) as writer:
        await writer.write_many(*made)
        assert writer.bytes_held == 0
    for segment_id, stored in events_of(system).items():
        owned = split_evenly(FULL_RANGE, 3)[segment_id]
        assert all(owned.receives(key_position(event.decode().partition(":")[0])) for event in stored)
    assert per_key(in_order(system)) == per_key(events)


@pytest.mark.slow
async def test_small_shares_of_many_batches_travel_in_common_blocks(system, client):
    system.controller.create("s", "t", 64)
    events = [f"k{number % 97}:{number}".encode() + b" " * (number % 50) for number in range(4000)]
    keys = [event.decode().partition(":")[0] for event in events]
    config = WriterConfig(block_bytes_max=2048)
    async with client.event_writer("s", "t", config) as writer:
        acks = []
        for first in range(0, len(events), 200):
            acks.append(writer.write_many(events[first : first + 200], keys[first : first + 200]))
            writer.write(f"k{first}:{4000 + first}".encode(), f"k{first}")  # single ones share them, too
        assert not any(ack.done() for ack in acks)
        for ack in acks:
            await ack
        await writer.flush()
        writer.check()
        assert writer.bytes_held == 0
    single = [f"k{first}:{4000 + first}".encode() for first in range(0, len(events), 200)]
    order = [
        event
        for first in range(0, 4000, 200)
        for event in (*events[first : first + 200], single[first // 200])
    ]
    assert per_key(in_order(system)) == per_key(order)


@pytest.mark.slow
async def test_a_share_larger_than_a_block_is_cut(system, client):
    system.controller.create("s", "t", 2)
    events = [f"k{number % 6}:{number}".encode() + b" " * 3_000_000 for number in range(8)]
    keys = [event[:2].decode() for event in events]
    async with client.event_writer("s", "t") as writer:
        await writer.write_many(events, keys)
        writer.check()
        assert writer.bytes_held == 0
    assert per_key(in_order(system)) == per_key(events)
    assert system.store.largest_append <= max(map(len, events)) + 8


@pytest.mark.slow
@pytest.mark.parametrize("segments", [1, 3])
async def test_events_of_all_sizes_arrive_whole_however_they_are_joined_on_the_way(system, client, segments):
    system.controller.create("s", "t", segments)
    chance = random.Random(7)
    sizes = [0] * 3000 + [1000] * 500 + [20_000] * 40 + [66_000] * 20 + [300_000] * 8
    chance.shuffle(sizes)
    events = [f"k{number % 50}:{number:<{size}}".encode() for number, size in enumerate(sizes)]
    keys = [event.decode().partition(":")[0] for event in events]
    async with client.event_writer("s", "t") as writer:
        first = 0
        while first < len(events):
            after = first + chance.randrange(1, 900)
            if chance.random() < 0.2:
                writer.write(events[first], keys[first])
                after = first + 1
            elif chance.random() < 0.2:
                writer.write_many([bytearray(event) for event in events[first:after]], keys[first:after])
            else:
                writer.write_many(events[first:after], keys[first:after])
            writer.check()
            if chance.random() < 0.3:
                await writer.drain()
            first = after
        await writer.flush()
        writer.check()
        assert writer.bytes_held == 0
    stored = in_order(system)
    assert sorted(stored) == sorted(events)
    assert per_key(stored) == per_key(events)


async def test_a_bytearray_may_be_reused_after_write_many(system, client):
    system.controller.create("s", "t", 8)
    buffer = bytearray(b"before")
    async with client.event_writer("s", "t") as writer:
        ack = writer.write_many([buffer, b"other"], ["a", "b"])
        buffer[:] = b"after!"
        await ack
    assert sorted(in_order(system)) == [b"before", b"other"]


async def test_many_events_of_one_key_or_of_none_are_all_stored(system, client):
    system.controller.create("s", "t", 3)
    async with client.event_writer("s", "t") as writer:
        await writer.write_many([b"a"] * 100, "key")
        await writer.write_many([b"b"] * 300)
        assert writer.write_many([]).done()
    stored = events_of(system)
    assert sum(events.count(b"a") for events in stored.values()) == 100
    assert sorted(events.count(b"a") for events in stored.values()) == [0, 0, 100]
    assert all(events.count(b"b") > 80 for events in stored.values())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("events", "keys"),
    [
        ([b"a", b""], None),
        ([b"a", None], None),
        ([b"a", b"b"], ["k"]),
        ([b"a"], [None]),
        (["text", "\ud800"], None),
        ("text", None),
        (b"bytes", None),
        ([b"ok", 5], "key"),
    ],
)
async def test_a_batch_with_one_bad_event_is_refused_as_a_whole(system, client, events, keys):
    system.controller.create("s", "t")
    async with client.event_writer("s", "t") as writer:
        with pytest.raises(InvalidArgumentError):
            writer.write_many(events, keys)
        assert writer.bytes_held == 0
        await writer.write(b"next")
    assert in_order(system) == [b"next"]


@pytest.mark.slow
@pytest.mark.parametrize("segments", [1, 2])
@pytest.mark.parametrize(
    "give",
    [
        lambda writer: writer.write(b"event", b"key"),
        lambda writer: writer.write(b"event", 5),
        lambda writer: writer.write("\ud800", "key"),
        lambda writer: writer.write(5, "key"),
        lambda writer: writer.write_atomic([b"event"], b"key"),
        lambda writer: writer.write_many(pa.array([b"event"]), pa.array([5])),
        lambda writer: writer.write_many(pa.array([b"event"]), pa.array([b"key"])),
        lambda writer: writer.write_many(
            [b"event"], pa.DictionaryArray.from_arrays(pa.array([1]), pa.array(["key", None]))
        ),
    ],
)
async def test_a_key_that_is_no_string_or_an_event_that_is_no_bytes_changes_nothing(
    system, client, segments, give
):
    system.controller.create("s", "t", segments)
    async with client.event_writer("s", "t") as writer:
        with pytest.raises(InvalidArgumentError):
            give(writer)
        assert writer.bytes_held == 0
        await writer.write(b"next")
    assert in_order(system) == [b"next"]


class Key(StrEnum):
    A = "a"
    B = "b"


async def test_a_key_may_be_more_than_a_string(system, client):
    system.controller.create("s", "t", 2)
    async with client.event_writer("s", "t") as writer:
        writer.write(b"a", Key.A)
        writer.write_many([b"b"] * 40, [Key.B] * 40)
    found = events_of(system)
    for key, count in ((Key.A, 1), (Key.B, 40)):
        segment_id = int(key_position(key.value) > 0.5)
        assert found[segment_id].count(key.value.encode()) == count


async def test_an_event_is_as_long_as_its_bytes_whatever_the_items_of_a_view(system, client):
    system.controller.create("s", "t")
    numbers = array("i", [1, 2, 3])
    async with client.event_writer("s", "t") as writer:
        writer.write(memoryview(numbers))
        writer.write(memoryview(b"abcdef")[::2])
        writer.write_many([memoryview(numbers)])
    assert in_order(system) == [numbers.tobytes(), b"ace", numbers.tobytes()]


async def test_an_empty_event_is_refused_and_the_largest_of_one_append_is_stored(system, client):
    system.controller.create("s", "t")
    async with client.event_writer("s", "t") as writer:
        with pytest.raises(InvalidArgumentError):
            writer.write(b"")
        await writer.write(bytes(EVENT_BYTES_MAX))
    assert [len(event) for event in in_order(system)] == [EVENT_BYTES_MAX]


async def test_an_atomic_batch_is_one_append(system, client):
    system.controller.create("s", "t", 2)
    async with client.event_writer("s", "t") as writer:
        await writer.write_atomic([b"one", b"two", b"three"], "key")
        with pytest.raises(EventTooLargeError):
            writer.write_atomic([bytes(EVENT_BYTES_MAX), b"more"], "key")
    assert system.store.counts["AppendBlockEnd"] == 1
    assert in_order(system) == [b"one", b"two", b"three"]


async def test_a_full_window_refuses_until_it_is_drained(system, client):
    system.controller.create("s", "t")
    system.store.ack_gate = asyncio.Event()
    config = WriterConfig(block_bytes_max=1024, window_bytes_max=10_000)
    async with client.event_writer("s", "t", config) as writer:
        for _ in range(10):
            writer.write(b"x" * 1000)
        with pytest.raises(ThrottledError):
            writer.write(b"x")
        assert writer.bytes_held >= 10_000
        waiting = asyncio.ensure_future(writer.drain())
        await asyncio.sleep(0)
        assert not waiting.done()
        system.store.ack_gate.set()
        await waiting
        assert writer.bytes_held <= 5_000
        writer.write(b"fits again")
    assert len(in_order(system)) == 11


async def test_who_has_to_wait_for_room_gets_room_for_more_than_one_batch(system, client, monkeypatch):
    """Half of this window are 8,000 bytes, and a batch goes on its way alone if it finds just that."""
    system.controller.create("s", "t")
    system.store.ack_gate = asyncio.Event()
    config = WriterConfig(block_bytes_max=1024, window_bytes_max=16_000)
    async with client.event_writer("s", "t", config) as writer:
        for _ in range(10):
            writer.write(b"x" * 1000)
        waiting = asyncio.ensure_future(writer.drain())
        await asyncio.sleep(0)
        held, honest = [], writer._wake_waiters
        monkeypatch.setattr(writer, "_wake_waiters", lambda: (held.append(writer.bytes_held), honest()))
        system.store.ack_gate.set()
        await waiting
        assert held == [6 * 1008]  # seven blocks are less than half, and not by a sixteenth


async def test_cancelling_a_waiter_does_not_undo_the_write(system, client):
    system.controller.create("s", "t")
    system.store.ack_gate = asyncio.Event()
    async with client.event_writer("s", "t") as writer:
        ack = writer.write(b"event")
        other = asyncio.ensure_future(_wait(ack))
        one = asyncio.ensure_future(_wait(ack))
        await asyncio.sleep(0.01)
        one.cancel()
        await asyncio.sleep(0)
        system.store.ack_gate.set()
        await other
        assert one.cancelled()
    assert in_order(system) == [b"event"]


async def _wait(ack):
    await ack


async def test_a_stream_that_does_not_exist_cannot_be_written(client):
    with pytest.raises(NoSuchStreamError):
        await client.event_writer("s", "missing")


async def test_a_sealed_stream_refuses_writers_and_writes(system, client):
    system.controller.create("s", "t", 2)
    writer = await client.event_writer("s", "t")
    await writer.write(b"before", "a")
    system.controller.seal_now("s", "t")
    ack = writer.write(b"after", "a")
    with pytest.raises(StreamSealedError):
        await ack
    with pytest.raises(StreamSealedError):
        writer.write(b"again", "a")
    with pytest.raises(StreamSealedError):
        await writer.close()
    with pytest.raises(StreamSealedError):
        await client.event_writer("s", "t")
    assert in_order(system) == [b"before"]


async def test_a_closed_writer_refuses(system, client):
    system.controller.create("s", "t")
    writer = await client.event_writer("s", "t")
    await writer.close()
    await writer.close()
    with pytest.raises(ClosedError):
        writer.write(b"late")


# ------------------------------------------------------------------------------ lost connections


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
async def test_nothing_is_lost_doubled_or_reordered_when_connections_break(system, client, seed):
    system.controller.create("s", "t", 3)
    chance = random.Random(seed)
    system.store.faults.random = chance
    system.store.faults.drop_before_append = 0.02
    system.store.faults.drop_after_append = 0.03
    system.store.faults.cut_reply = 0.02
    system.store.faults.wrong_host = 0.1
    system.store.coalesce = bool(seed % 2)
    config = WriterConfig(block_bytes_max=1024)
    expected = {f"key{number}": [] for number in range(10)}
    async with client.event_writer("s", "t", config) as writer:
        for number in range(3000):
            key = f"key{chance.randrange(10)}"
            expected[key].append(number)
            writer.write(f"{key}:{number}".encode(), key)
            if chance.random() < 0.05:
                await asyncio.sleep(0)
            if chance.random() < 0.01:
                await writer.flush()
        await writer.flush()
        writer.check()
        assert writer.bytes_held == 0
    assert per_key(in_order(system)) == expected
    assert system.store.counts["connections"] > 3


async def test_a_restarted_store_is_found_again(system, client):
    system.controller.create("s", "t")
    async with client.event_writer("s", "t") as writer:
        await writer.write(b"before")
        port = system.store.port
        await system.store.stop()
        ack = writer.write(b"during")
        await asyncio.sleep(0.05)
        assert not ack.done()
        await system.store.start(port)
        await ack
    assert in_order(system) == [b"before", b"during"]


async def test_late_refusals_of_an_earlier_attempt_are_nobodys_business(system, client):
    system.controller.create("s", "t")
    system.store.refuse_as_wrong_host = True
    async with client.event_writer("s", "t", WriterConfig(block_bytes_max=1024)) as writer:
        for number in range(20):
            writer.write(b"%03d" % number + b"x" * 1000)
        await writer.flush()
    assert [event[:3] for event in in_order(system)] == [b"%03d" % number for number in range(20)]
    assert system.store.counts["SetupAppend"] == 2


# ------------------------------------------------------------------------------ scaling


async def _write_numbered(writer, chance, counters, count):
    for _ in range(count):
        key = f"key{chance.randrange(20)}"
        counters[key] = counters.get(key, -1) + 1
        event = f"{key}:{counters[key]}".encode()
        if counters[key] % 2:
            writer.write(event, key)
        else:
            writer.write_many([event], [key])  # divided among segments at the end of the turn
        if chance.random() < 0.1:
            await asyncio.sleep(0)


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds(12))
async def test_order_per_key_survives_splits_and_merges_under_faults(system, client, seed):
    chance = random.Random(seed)
    system.controller.create("s", "t", 2)
    system.store.faults.random = random.Random(seed)
    if seed % 2:
        system.store.faults.drop_after_append = 0.03
        system.store.faults.drop_before_append = 0.02
    config = WriterConfig(block_bytes_max=1024)
    counters = {}
    async with client.event_writer("s", "t", config) as writer:
        for _ in range(6):
            await _write_numbered(writer, chance, counters, 200)
            current = sorted(system.controller.epochs["s", "t"][-1].items(), key=lambda item: item[1])
            if chance.random() < 0.5 or len(current) < 2:
                segment_id, key_range = chance.choice(current)
                system.controller.scale_now("s", "t", [segment_id], split_evenly(key_range, 2))
            else:
                at = chance.randrange(len(current) - 1)
                (left, low), (right, high) = current[at : at + 2]
                system.controller.scale_now("s", "t", [left, right], [KeyRange(low.low, high.high)])
            await _write_numbered(writer, chance, counters, 200)
        await writer.flush()
        writer.check()
        assert writer.bytes_held == 0
    expected = {key: list(range(last + 1)) for key, last in counters.items()}
    assert per_key(in_order(system)) == expected


async def test_keys_are_not_hashed_as_long_as_there_is_one_segment(system, client, monkeypatch):
    hashed = []

    def position(key):
        hashed.append(key)
        return key_position(key)

    monkeypatch.setattr("headrace.client.writer.routed_writer.key_position", position)
    system.controller.create("s", "t")
    async with client.event_writer("s", "t") as writer:
        for number in range(5):
            writer.write(b"%d" % number, f"key-{number}")
        assert hashed == ["key-0"]  # the first one opens the way
        system.controller.scale_now("s", "t", [0], split_evenly(FULL_RANGE, 2))
        await writer.write(b"5", "key-5")
        writer.write(b"6", "key-6")
        writer.check()
        assert hashed[-1] == "key-6"
    assert sorted(in_order(system)) == [b"%d" % number for number in range(7)]


async def test_the_window_grows_with_the_stream_and_never_shrinks(system, client):
    system.controller.create("s", "t")
    async with client.event_writer("s", "t") as writer:
        assert writer.statistics().bytes_held_max == 32 << 20
        successors = system.controller.scale_now("s", "t", [0], split_evenly(FULL_RANGE, 300))
        await writer.write(b"notices", "key")
        assert writer.statistics().bytes_held_max == 300 * 512 << 10
        system.controller.scale_now("s", "t", successors, [FULL_RANGE])
        await writer.write(b"notices", "key")
        assert writer.statistics().bytes_held_max == 300 * 512 << 10
    with pytest.raises(ClosedError):
        writer.write(b"late")


async def test_a_batch_in_flight_is_divided_among_the_successors(system, client):
    system.controller.create("s", "t")
    async with client.event_writer("s", "t") as writer:
        await writer.write(b"start", "x")
        system.controller.scale_now("s", "t", [0], split_evenly(FULL_RANGE, 3))
        events = [f"k{number % 50}:{number}".encode() for number in range(5000)]
        await writer.write_many(events, [event.decode().partition(":")[0] for event in events])
    stored = events_of(system)
    assert len(stored) == 4
    assert per_key(event for each, found in sorted(stored.items()) if each for event in found) == per_key(
        events
    )


# ------------------------------------------------------------------------------ ending


async def test_closing_the_client_fails_everything_that_waits_in_vain(system):
    client = connect(system.uri, ClientConfig(close_timeout_s=0.01))
    system.controller.create("s", "t", 2)
    system.store.ack_gate = asyncio.Event()
    writer = await client.event_writer("s", "t")
    system.controller.create("s", "other")
    reader = await client.event_reader("s", "other")
    reading = asyncio.ensure_future(reader.next_batch())
    ack = writer.write(b"in doubt", "1")
    await system.store.stored(16)
    system.controller.seal_now("s", "t")
    system.controller.slow = asyncio.Event()
    late = writer.write(b"never sent", "a")
    draining = asyncio.ensure_future(writer.flush())
    await asyncio.sleep(0.01)
    with pytest.raises(NotDurableError) as caught:
        await client.close()
    assert caught.value.lost == (LostWrites("s/t", 2, "events"),)
    await client.close()
    async with asyncio.timeout(60):
        with pytest.raises(UnknownOutcomeError):
            await ack
        with pytest.raises(HeadraceError):
            await late
        with pytest.raises(HeadraceError):
            await draining
        with pytest.raises(ClosedError):
            await reading
    with pytest.raises(HeadraceError):
        writer.write(b"late")


async def test_batches_that_were_not_divided_yet_are_stored_by_the_end_of_the_client(system, client):
    system.controller.create("s", "t", 3)
    writer = await client.event_writer("s", "t")
    await writer.write_many([b"a", b"b", b"c"] * 50)
    ack = writer.write_many([b"d", b"e", b"f"] * 50)
    await client.close()  # in the same turn
    assert ack.done()
    await ack
    writer.check()
    assert writer.bytes_held == 0
    with pytest.raises(ClosedError):
        writer.write_many([b"late"])
    await writer.flush()
    await writer.close()
    assert len(in_order(system)) == 300


@pytest.mark.parametrize(
    "write", [lambda writer: writer.write(b"late"), lambda writer: writer.write_many([b"a", b"b"])]
)
async def test_what_is_written_after_the_client_was_closed_fails(system, client, write):
    system.controller.create("s", "t", 3)
    writer = await client.event_writer("s", "t")
    await client.close()
    with pytest.raises(ClosedError):
        write(writer)
    await writer.flush()
    await writer.close()
    writer.check()
    assert writer.bytes_held == 0


async def test_a_writer_that_gives_up_says_that_the_outcome_is_unknown(system, client):
    system.controller.create("s", "t")
    system.store.faults.drop_after_append = 1.0
    patience = ReconnectPolicy(initial_s=0.001, delay_max_s=0.001, give_up_s=0.0)
    writer = await client.event_writer("s", "t", WriterConfig(reconnect=patience))
    ack = writer.write(b"stored but never acknowledged")
    await system.store.stored(20)
    await system.store.stop()
    with pytest.raises(UnknownOutcomeError):
        await ack
    with pytest.raises(UnknownOutcomeError):
        writer.write(b"more")
    with pytest.raises(UnknownOutcomeError):
        await writer.drain()
