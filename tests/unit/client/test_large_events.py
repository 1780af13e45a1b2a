"""Events above 8 MiB: in order with the others, once, whatever happens to connections and segments."""

import asyncio
import io
import random

import pytest
from test_event_writer import in_order

from headrace.client import ClientConfig, ReaderConfig, WriterConfig, connect
from headrace.errors import (
    EventTooLargeError,
    HeadraceError,
    InvalidArgumentError,
    LargeEventError,
    StreamSealedError,
)
from headrace.limits import EVENT_BYTES_MAX, MIB
from headrace.model.key_space import FULL_RANGE, key_position, split_evenly
from tests.effort import seeds

LARGE = bytes(range(256)) * (9 * MIB // 256)


def told(events):
    """Shorten large events, for comparison."""
    return [event if len(event) < 100 else (len(event), event == LARGE) for event in events]


IS_LARGE = (len(LARGE), True)


async def test_a_large_event_is_written_like_any_other_between_those_of_its_key(system, client):
    system.controller.create("s", "t")
    async with client.event_writer("s/t") as writer:
        writer.write(b"1", "key")
        ack = writer.write(LARGE, "key")
        writer.write(b"3", "key")
        await ack
        assert told(in_order(system))[:2] == [b"1", IS_LARGE]
    assert told(in_order(system)) == [b"1", IS_LARGE, b"3"]
    assert system.store.largest_append < MIB
    assert set(system.store.segments) == {"s/t/0.#epoch.0"}


async def test_of_too_many_at_once_of_which_one_is_large_none_is_taken(system, client):
    system.controller.create("s", "t")
    small = [bytes(8 * MIB)] * 64  # one object: 512 MiB are given, and not held
    async with client.event_writer("s/t") as writer:
        with pytest.raises(EventTooLargeError):
            writer.write_many([b"first", LARGE, *small], "key")
        assert writer.bytes_held == 0
        await writer.write(b"next", "key")
    assert told(in_order(system)) == [b"next"]


@pytest.mark.slow
@pytest.mark.parametrize("name", [None, "etl"])
async def test_large_events_in_batches_keep_their_place(system, client, name):
    system.controller.create("s", "t", 2)
    events = [b"1", LARGE, b"2", b"3", LARGE]
    numbers = {} if name is None else {"numbers": 1}
    for _ in range(1 if name is None else 2):
        async with client.event_writer("s/t", name=name) as writer:
            await writer.write_many(events, "key", **numbers)
    assert told(in_order(system)) == [b"1", IS_LARGE, b"2", b"3", IS_LARGE]
    pa = pytest.importorskip("pyarrow")
    numbers = {} if name is None else {"numbers": 11}
    async with client.event_writer("s/t", name=name) as writer:
        await writer.write_many(pa.array([b"4", LARGE]), ["key", "key"], **numbers)
    assert told(in_order(system))[5:] == [b"4", IS_LARGE]


async def _asynchronously(blocks):
    for block in blocks:
        yield block


@pytest.mark.slow
@pytest.mark.parametrize("given", ["bytes", "path", "file", "pipe", "iterator", "asynchronous"])
async def test_a_large_event_comes_from_anything_with_bytes(system, client, tmp_path, given):
    system.controller.create("s", "t")
    path = tmp_path / "large"
    path.write_bytes(LARGE)
    blocks = [LARGE[:MIB], LARGE[MIB : 2 * MIB + 1], LARGE[2 * MIB + 1 :]]
    seen = []
    async with client.event_writer("s/t") as writer:
        with path.open("rb") as file:
            pipe = io.BytesIO(LARGE)
            pipe.seekable = lambda: False
            event = {
                "bytes": LARGE,
                "path": path,
                "file": file,
                "pipe": pipe,
                "iterator": iter(blocks),
                "asynchronous": _asynchronously(blocks),
            }[given]
            await writer.write_large(event, "key", progress=lambda *done: seen.append(done))
        assert told(in_order(system)) == [IS_LARGE]
        assert seen[-1] == (len(LARGE), len(LARGE))
        assert seen == sorted(seen)


async def test_what_is_no_large_event_is_refused(system, client, tmp_path):
    system.controller.create("s", "t")
    async with client.event_writer("s/t") as writer:
        with pytest.raises(InvalidArgumentError, match="at least one byte"):
            await writer.write_large(b"", "key")
        with pytest.raises(InvalidArgumentError, match="no bytes"):
            await writer.write_large([1, 2], "key")
        with pytest.raises(OSError, match="nothing"):
            await writer.write_large(tmp_path / "nothing", "key")
        with pytest.raises(InvalidArgumentError, match="open it with a name"):
            await writer.write_large(b"x", "key", number=7)
        with pytest.raises(EventTooLargeError):
            writer.write_atomic([LARGE], "key")
    transactions = client.txn_writer("s/t")
    transaction = await transactions.begin()
    with pytest.raises(EventTooLargeError):
        transaction.write(LARGE, "key")
    with pytest.raises(EventTooLargeError):
        transaction.write_many([LARGE], "key")
    assert transaction.is_open
    assert in_order(system) == []


async def test_a_large_event_that_is_cancelled_is_not_written_and_holds_nothing_up(system, client):
    system.controller.create("s", "t")
    async with client.event_writer("s/t") as writer:
        begun = asyncio.Event()
        task = asyncio.ensure_future(writer.write_large(LARGE, "key", progress=lambda *_: begun.set()))
        waiting = asyncio.ensure_future(writer.write_large(LARGE, "key"))
        await begun.wait()
        behind = writer.write(b"behind", "key")
        task.cancel()
        waiting.cancel()
        await behind
        assert writer.bytes_held == 0
    assert in_order(system) == [b"behind"]
    await client.segment_info("s/t", 0)  # behind the removal
    assert set(system.store.segments) == {"s/t/0.#epoch.0"}


async def test_a_file_that_becomes_shorter_is_not_written(system, client, tmp_path):
    system.controller.create("s", "t")
    path = tmp_path / "large"
    path.write_bytes(LARGE)
    with path.open("r+b") as file:
        async with client.event_writer("s/t") as writer:
            with pytest.raises(InvalidArgumentError, match="has become shorter"):
                await writer.write_large(file, progress=lambda *_: file.truncate(100))
            await writer.write(b"x")
    assert in_order(system) == [b"x"]


async def test_a_segment_that_is_sealed_in_front_of_the_merge_leaves_it_to_its_successor(system, client):
    system.controller.create("s", "t")

    def scale():
        system.store.on_merge = lambda: None
        system.controller.scale_now("s", "t", [0], [FULL_RANGE])

    system.store.on_merge = scale
    async with client.event_writer("s/t") as writer:
        writer.write(b"1", "key")
        writer.write(LARGE, "key")
        writer.write(b"3", "key")
    stored = system.controller.data_of("s", "t")
    assert [len(data) for _, data in sorted(stored.items())] == [9, len(LARGE) + 8 + 9]
    assert told(in_order(system)) == [b"1", IS_LARGE, b"3"]


async def test_a_merge_whose_answer_is_lost_is_found_out(system, client):
    system.controller.create("s", "t")

    def lose():
        system.store.on_merge = lambda: None
        system.store.faults.drop_after_append = 1.0
        asyncio.get_running_loop().call_soon(setattr, system.store.faults, "drop_after_append", 0.0)

    system.store.on_merge = lose
    async with client.event_writer("s/t") as writer:
        await writer.write(LARGE, "key")
        await writer.write(b"2", "key")
    assert system.store.counts["MergeSegments"] == 1
    assert told(in_order(system)) == [IS_LARGE, b"2"]


async def test_a_stream_that_is_sealed_refuses_a_large_event(system, client):
    system.controller.create("s", "t")
    system.store.on_merge = lambda: system.controller.seal_now("s", "t")
    writer = await client.event_writer("s/t")
    with pytest.raises(StreamSealedError):
        await writer.write(LARGE, "key")
    with pytest.raises(HeadraceError):
        await writer.close()
    assert in_order(system) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", [None, "etl"])
@pytest.mark.parametrize("seed", seeds(8))
async def test_large_events_are_stored_once_over_lost_connections_and_scales(system, client, seed, name):
    rng = random.Random(seed)
    system.controller.create("s", "t", 2)
    system.store.faults.random = rng
    expected = {key: [] for key in ("a", "b", "c")}
    async with client.event_writer("s/t", WriterConfig(window_bytes_max=256 * MIB), name=name) as writer:
        system.store.faults.drop_before_append = 0.03
        system.store.faults.drop_after_append = 0.2
        for number in range(25):
            key = rng.choice("abc")
            event = f"{key}{number}".encode()
            if rng.random() < 0.2:
                event += b"." * (EVENT_BYTES_MAX + rng.randrange(MIB))
            expected[key].append(event)
            ack = writer.write(event, key, **({} if name is None else {"number": number}))
            if rng.random() < 0.2:
                await ack
            if rng.random() < 0.1:
                present = list(system.controller.epochs["s", "t"][-1])
                system.controller.scale_now("s", "t", present, split_evenly(FULL_RANGE, rng.randrange(1, 4)))
        system.store.faults.drop_before_append = system.store.faults.drop_after_append = 0
    found = {key: [event for event in in_order(system) if event[:1] == key.encode()] for key in expected}
    assert {key: list(map(len, events)) for key, events in found.items()} == {
        key: list(map(len, events)) for key, events in expected.items()
    }
    assert found == expected
    assert len({key_position(key) for key in expected}) == 3
    assert not [name for name in system.store.segments if "transient" in name]


@pytest.mark.slow
@pytest.mark.parametrize("by", ["events", "batches"])
async def test_a_reader_refuses_what_is_larger_than_it_may_hold_once_and_says_where_it_is(system, client, by):
    system.controller.create("s", "t")
    async with client.event_writer("s/t") as writer:
        writer.write_many([b"1", LARGE, b"3", LARGE[:-1], b"5"], "key")
    config = ReaderConfig(event_bytes_max=len(LARGE) - 1)
    seen = []
    async with client.event_reader("s/t", end="tail", config=config) as reader:
        while True:
            try:
                if by == "batches":
                    async for batch in reader.batches():
                        seen += batch.payloads()
                else:
                    async for event in reader:
                        seen.append(event.data)
                break
            except LargeEventError as error:
                seen.append(error)
                place = reader.position()
    assert [b"1", b"3", LARGE[:-1], b"5"] == [each for each in seen if isinstance(each, bytes)]
    [error] = [each for each in seen if isinstance(each, LargeEventError)]
    assert seen.index(error) == 1
    assert (error.offset, error.length, error.segment_id) == (9, len(LARGE), 0)
    assert place.offsets == {0: error.end}
    async with client.read_segment_range("s", "t", 0, error.start, error.end) as source:
        assert await source.read_all() == LARGE
    async with client.read_segment_range("s", "t", 0, 0, None) as source:
        assert len(await source.next_batch()) == 1
    async with (
        connect(system.uri, ClientConfig(reader=config)) as other,
        other.read_segment_range("s", "t", 0, 0, None) as source,
    ):
        assert len(await source.next_batch()) == 1
        for _ in range(2):
            with pytest.raises(LargeEventError, match="stream its bytes with read_segment_range"):
                await source.next_batch()
