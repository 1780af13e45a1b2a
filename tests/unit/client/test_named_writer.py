"""Writers with a name: what is given again under its number is not stored again, over kills and scales."""

import asyncio
import contextlib
import random

import pytest
from fake_server import FakeSystem
from test_event_writer import in_order, per_key

from headrace.client import WriterConfig, connect
from headrace.errors import (
    ClosedError,
    HeadraceError,
    InvalidArgumentError,
    NotDurableError,
    WriterReplacedError,
)
from headrace.model.key_space import FULL_RANGE, KeyRange, key_position, split_evenly
from tests.effort import examples, soak

KEYS = [f"key{number}" for number in range(7)]


def source(count):
    """A deterministic source: the same events with the same keys under the same numbers, with gaps."""
    return [(7 + 3 * n, KEYS[n * n % len(KEYS)], f"{KEYS[n * n % len(KEYS)]}:{n}") for n in range(count)]


def expected(count):
    found = {}
    for n, (_, key, _) in enumerate(source(count)):
        found.setdefault(key, []).append(n)
    return found


async def test_what_was_given_before_is_not_stored_again(system, client):
    system.controller.create("s", "t", 2)
    async with client.event_writer("s/t", name="etl-7") as writer:
        assert writer.durable_number is None
        for number, key, event in source(20):
            writer.write(event, key, number=number)
        await writer.flush()
        assert writer.durable_number == source(20)[-1][0]
    async with client.event_writer("s/t", name="etl-7") as writer:
        assert writer.durable_number in {number for number, *_ in source(20)}
        for number, key, event in source(30):
            await writer.write(event, key, number=number)
    async with client.event_writer("s/t", name="another") as writer:
        await writer.write(b"key0:99", "key0", number=1)
    assert per_key(in_order(system)) == expected(30) | {"key0": [*expected(30)["key0"], 99]}


async def test_batches_have_a_first_number_or_one_number_each(system, client):
    system.controller.create("s", "t", 3)
    events = [f"{KEYS[n % 7]}:{n}" for n in range(100)]
    keys = [KEYS[n % 7] for n in range(100)]
    async with client.event_writer("s/t", name="etl") as writer:
        await writer.write_many(events[:60], keys[:60], numbers=1000)
        with pytest.raises(InvalidArgumentError, match="given behind 1059: numbers rise"):
            writer.write_many(events[60:], keys[60:], numbers=1059)
        with pytest.raises(InvalidArgumentError, match="2 numbers do not fit 3 events"):
            writer.write_many(events[60:63], keys[60:63], numbers=[2000, 2001])
        with pytest.raises(InvalidArgumentError, match="wants the number of each event"):
            writer.write_many(events[60:], keys[60:])
        with pytest.raises(InvalidArgumentError, match="wants the number of each event"):
            writer.write(b"x", "key")
    async with client.event_writer("s/t", name="etl") as writer:
        numpy = pytest.importorskip("numpy")
        await writer.write_many(events, keys, numbers=numpy.arange(1000, 1100))
        await writer.write_atomic(["key0:200", "key0:201"], "key0", number=1100)
    async with client.event_writer("s/t", name="etl") as writer:
        await writer.write_atomic(["key0:200", "key0:201"], "key0", number=1100)
    found = per_key(in_order(system))
    assert found.pop("key0") == [*range(0, 100, 7), 200, 201]
    assert found == {KEYS[first]: list(range(first, 100, 7)) for first in range(1, 7)}


async def test_events_without_a_key_are_not_doubled_either(system, client):
    system.controller.create("s", "t", 4)
    for _ in range(2):
        async with client.event_writer("s/t", name="etl") as writer:
            for number in range(50):
                writer.write(b"%d" % number, number=number)
            writer.write_many([b"%d" % number for number in range(50, 100)], numbers=50)
    assert sorted(map(int, in_order(system))) == list(range(100))
    assert all(system.controller.data_of("s", "t").values())


async def test_a_number_without_a_name_is_refused(system, client):
    system.controller.create("s", "t")
    async with client.event_writer("s/t") as writer:
        for call in (
            lambda: writer.write(b"x", "key", number=1),
            lambda: writer.write_many([b"x"], "key", numbers=1),
            lambda: writer.write_atomic([b"x"], "key", number=1),
        ):
            with pytest.raises(InvalidArgumentError, match="open it with a name"):
                call()
    with pytest.raises(InvalidArgumentError, match="a writer has a name"):
        client.event_writer("s/t", name="")


async def test_segments_that_were_merged_are_asked_for_their_numbers_by_key(system, client):
    """One of two segments is further; then one continues both, and neither number may stand for the other."""
    system.controller.create("s", "t", 2)
    low, high = min(KEYS, key=key_position), max(KEYS, key=key_position)
    async with client.event_writer("s/t", name="etl") as writer:
        await writer.write(f"{low}:1", low, number=1)
        await writer.write(f"{high}:2", high, number=2)
        await writer.write(f"{high}:4", high, number=4)
    ids = list(system.controller.epochs["s", "t"][-1])
    system.controller.scale_now("s", "t", ids, [FULL_RANGE])
    for last in (3, 4):  # at first it dies behind number 3; what has 4 is a segment behind a segment then
        async with client.event_writer("s/t", name="etl") as writer:
            assert writer.durable_number == {3: 1, 4: 3}[last]
            for number, key in ((1, low), (2, high), (3, low), (4, high))[:last]:
                await writer.write(f"{key}:{number}", key, number=number)
        [present] = system.controller.epochs["s", "t"][-1]
        system.controller.scale_now("s", "t", [present], [FULL_RANGE])
    assert per_key(in_order(system)) == {low: [1, 3], high: [2, 4]}


async def test_what_a_killed_process_had_sent_counts_though_its_segment_is_sealed_since(system):
    system.controller.create("s", "t", 2)
    low, high = min(KEYS, key=key_position), max(KEYS, key=key_position)
    first, second = system.controller.epochs["s", "t"][-1]
    async with connect(system.uri) as other, contextlib.AsyncExitStack() as stack:
        stack.enter_context(pytest.raises(NotDurableError))
        client = await stack.enter_async_context(connect(system.uri))
        former = await client.event_writer("s/t", name="etl")
        await former.write(f"{low}:0", low, number=0)
        await former.write(f"{high}:1", high, number=1)
        thaw = system.store.freeze()
        former.write(f"{high}:2", high, number=2)
        former.write(f"{low}:3", low, number=3)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        async with other.event_writer("s/t", name="etl") as writer:
            system.controller.scale_now("s", "t", [second], [KeyRange(0.5, 1.0)])
            thaw.set()
            await system.store.stored(len(f"{low}:0") * 2 + 16)  # number 2 is refused, and number 3 is not
            system.controller.scale_now("s", "t", [first], [KeyRange(0.0, 0.5)])
            former.abandon(ClosedError("killed"))
            writer.write(f"{high}:2", high, number=2)
            while not system.controller.counts["successors"]:  # noqa: ASYNC110 - it is the fake that counts
                await asyncio.sleep(0)
            writer.write(f"{low}:3", low, number=3)
    assert per_key(in_order(system)) == {low: [0, 3], high: [1, 2]}


async def test_a_second_process_of_the_name_ends_the_first(system, client):
    system.controller.create("s", "t")
    async with connect(system.uri) as other:
        first = await client.event_writer("s/t", name="etl")
        await first.write(b"1", "key", number=1)
        async with other.event_writer("s/t", name="etl") as second:
            await second.write(b"5", "key", number=5)
        with pytest.raises(HeadraceError) as caught:
            await first.write(b"6", "key", number=6)
        assert isinstance(first.error, WriterReplacedError)
        assert "another process writes as 'etl'" in str(caught.value)
        assert first.durable_number == 5
        with pytest.raises(WriterReplacedError):
            first.write(b"7", "key", number=7)
        with pytest.raises(HeadraceError):
            await first.close()
    assert in_order(system) == [b"1", b"5"]


def scale_at_random(rng, system):
    """Split, merge, or replace segments of the present epoch."""
    present = sorted(system.controller.epochs["s", "t"][-1].items(), key=lambda each: each[1])
    first = rng.randrange(len(present))
    after = rng.randrange(first, min(len(present), first + 2)) + 1
    whole = KeyRange(present[first][1].low, present[after - 1][1].high)
    ids = [each for each, _ in present[first:after]]
    system.controller.scale_now("s", "t", ids, split_evenly(whole, rng.choice((1, 1, 2, 3))))


async def killed_and_started_again(seed, system):
    """Write a source with a process that is killed again and again, at any step, while the stream scales."""
    rng = random.Random(seed)
    count = rng.randrange(5, 40)
    system.controller.create("s", "t", rng.randrange(1, 4))
    faults = system.store.faults
    faults.random = rng
    position = -1
    """Of the application: everything up to this number was acknowledged to it."""
    config = WriterConfig(block_bytes_max=1024, blocks_in_flight_max=rng.choice((1, 2, 64)))
    done, thaw = False, asyncio.Event()
    while not done:
        faults.drop_before_append, faults.drop_after_append = rng.choice(((0, 0), (0.1, 0.1), (0, 0.3)))
        kill_at = rng.randrange(0, 2 * count)
        freeze_at = rng.choice((kill_at + 1, kill_at - rng.randrange(1, 9)))
        thaw_at = rng.randrange(0, 20)
        client = connect(system.uri)
        try:
            writer = await client.event_writer("s/t", config, name="etl")
            acks = []
            events = [each for each in source(count) if each[0] > position]
            for step, (number, key, event) in enumerate(events):
                if step == kill_at:
                    await asyncio.sleep(0.002)  # what it has given may be sent
                    break
                if step == thaw_at:
                    thaw.set()  # what the former process has sent arrives now
                if step == freeze_at:
                    frozen = system.store.freeze()
                    thaw.set()
                    thaw = frozen
                padding = " " * rng.choice((0, 0, 700))
                acks.append((number, writer.write(event + padding, key, number=number)))
                if rng.random() < 0.3:
                    await asyncio.sleep(0)
                if rng.random() < 0.1 and (step < freeze_at or step > kill_at):
                    await acks[-1][1]
                if rng.random() < 0.1:
                    scale_at_random(rng, system)
            else:
                if kill_at > len(events):
                    thaw.set()
                    await writer.close()
                    done = True
            for number, ack in acks:
                if not ack.done() or ack.error() is not None:
                    break
                position = number if rng.random() < 0.7 else position  # or its own checkpoint is older
            if acks and not done:
                assert (writer.durable_number if writer.durable_number is not None else -1) >= position
            writer.abandon(ClosedError("killed"))
        finally:
            with contextlib.suppress(NotDurableError):
                await client.close()
    events = [event.strip() for event in in_order(system)]
    assert per_key(events) == expected(count), seed
    return count


async def try_rounds(seeds):
    for seed in seeds:
        async with FakeSystem() as system:
            async with asyncio.timeout(60):
                await killed_and_started_again(seed, system)


@pytest.mark.slow
async def test_a_source_that_is_killed_at_any_step_over_scales_is_written_once():
    await try_rounds(range(examples(40)))


@soak
@pytest.mark.slow
async def test_a_thousand_sources_that_are_killed_over_scales_are_written_once():
    await try_rounds(range(1000, 2000))
