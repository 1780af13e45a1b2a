import asyncio
import random

import pytest

from headrace.client import ReaderConfig, StreamCut
from headrace.client.framing.event_frames import frame_list
from headrace.errors import (
    ClosedError,
    DataCorruptionError,
    InvalidArgumentError,
    NoSuchSegmentError,
    NoSuchStreamError,
    SegmentTruncatedError,
)
from headrace.model.key_space import FULL_RANGE, KeyRange, key_position, split_evenly
from headrace.model.names import segment_name
from tests.effort import seeds

SMALL = ReaderConfig(read_bytes_max=1024, window_bytes_max=1 << 20)


def append(system, segment_id, events, stream="t"):
    segment = system.store.segments[segment_name("s", stream, segment_id)]
    segment.data += frame_list(events)[0]
    segment.wake()


def append_by_key(system, key, event):
    """Append where a writer that knows the newest epoch would."""
    position = key_position(key)
    for segment_id, key_range in system.controller.epochs["s", "t"][-1].items():
        if key_range.receives(position):
            append(system, segment_id, [event])


async def read_all(reader):
    return [data async for batch in reader.batches() for data in batch]


async def test_a_reader_yields_what_is_stored_and_ends_with_the_stream(system, client):
    system.controller.create("s", "t")
    append(system, 0, [b"one", b"two", b"three"])
    system.controller.seal_now("s", "t")
    async with client.event_reader("s", "t") as reader:
        assert await read_all(reader) == [b"one", b"two", b"three"]
        assert await reader.next_batch() is None
        assert reader.position() == StreamCut.from_offsets("s", "t", {0: 35})


async def test_an_empty_sealed_stream_has_no_events(system, client):
    system.controller.create("s", "t", 3)
    system.controller.seal_now("s", "t")
    async with client.event_reader("s", "t") as reader:
        assert await read_all(reader) == []


async def test_a_reader_at_the_tail_is_woken_by_an_append(system, client):
    system.controller.create("s", "t")
    append(system, 0, [b"old"])
    async with client.event_reader("s", "t", start="tail") as reader:
        waiting = asyncio.ensure_future(reader.next_batch())
        await asyncio.sleep(0.02)
        assert not waiting.done()
        append(system, 0, [b"new"])
        assert list(await waiting) == [b"new"]


async def test_cancelling_a_read_loses_nothing(system, client):
    system.controller.create("s", "t")
    async with client.event_reader("s", "t") as reader:
        for number in range(20):
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.001):
                    await reader.next_batch()
            append(system, 0, [b"%d" % number])
            assert list(await reader.next_batch()) == [b"%d" % number]


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds(8))
async def test_events_split_between_blocks_are_joined_whatever_their_sizes(system, client, seed):
    chance = random.Random(seed)
    sizes = [chance.choice([1, 2, 7, 100, 1016, 1017, 1024, 5000, 70_000]) for _ in range(300)]
    events = [chance.randbytes(size) for size in sizes]
    system.controller.create("s", "t")
    append(system, 0, events)
    system.controller.seal_now("s", "t")
    system.store.max_read = chance.choice([9, 333, 1024, 2 << 20])
    if system.store.max_read == 9:
        events = [event for event in events if len(event) < 2000][:20]
        system.store.segments["s/t/0.#epoch.0"].data[:] = frame_list(events)[0]
    config = chance.choice([SMALL, ReaderConfig()])
    async with client.event_reader("s", "t", config=config) as reader:
        found = []
        async for event in reader:
            assert reader.position().offsets == {0: event.end_offset}
            found.append(event.data)
    assert found == events


async def test_offsets_and_arrow_agree_with_the_bytes(system, client):
    system.controller.create("s", "t")
    events = [b"x" * (number % 17 + 1) for number in range(500)]
    append(system, 0, events)
    system.controller.seal_now("s", "t")
    async with client.event_reader("s", "t", config=SMALL) as reader:
        column, offsets = [], []
        async for batch in reader.batches():
            assert len(batch) == len(batch.offsets())
            assert batch.end_offset - batch.start_offset == len(batch.raw) == batch.size_bytes
            column += batch.to_arrow().to_pylist()
            offsets += list(batch.offsets())
    assert column == events
    assert offsets == [sum(8 + len(event) for event in events[:index]) for index in range(len(events))]


async def test_a_cut_resumes_exactly_where_it_was_taken(system, client):
    system.controller.create("s", "t", 3)
    for number in range(300):
        append_by_key(system, f"k{number % 11}", b"%d" % number)
    system.controller.seal_now("s", "t")
    async with client.event_reader("s", "t", config=SMALL) as reader:
        first = []
        async for event in reader:
            first.append(event.data)
            if len(first) == 120:
                break
        cut = reader.position()
    async with client.event_reader("s", "t", start=StreamCut.from_text(cut.as_text())) as reader:
        rest = await read_all(reader)
    assert sorted(first + rest, key=int) == [b"%d" % number for number in range(300)]


async def test_reading_stops_at_the_end_cut(system, client):
    system.controller.create("s", "t", 2)
    append(system, 0, [b"a", b"b", b"c"])
    append(system, 1, [b"d", b"e", b"f"])
    end = StreamCut.from_offsets("s", "t", {0: 18, 1: 9})
    async with client.event_reader("s", "t", end=end) as reader:
        assert sorted(await read_all(reader)) == [b"a", b"b", b"d"]
        assert reader.position() == end
    async with client.event_reader("s", "t", start=end, end="tail") as reader:
        assert sorted(await read_all(reader)) == [b"c", b"e", b"f"]
    async with client.event_reader("s", "t", start="tail", end="tail") as reader:
        assert await read_all(reader) == []


async def test_a_loop_that_is_left_costs_no_event(system, client):
    system.controller.create("s", "t")
    events = [b"%d" % number for number in range(10)]
    append(system, 0, events)
    async with client.event_reader("s", "t", end="tail") as reader:
        async for event in reader:
            assert event.data == b"0"
            break
        batches = reader.batches()
        batch = await anext(batches)
        assert [event.offset for event in batch.events()] == [9 * number for number in range(1, 10)]
        assert list(batch) == batch.to_arrow().to_pylist() == events[1:]
        assert reader.position() == await client.tail_cut("s", "t")


async def test_a_loop_of_its_own_goes_on_after_a_wait_that_took_too_long(system, client):
    system.controller.create("s", "t")
    append(system, 0, [b"one", b"two"])
    loop = client.read("s", "t", follow=True)
    assert (await anext(loop)).data == b"one"
    assert [event.data async for event in _first(loop, 1)] == [b"two"]
    for number in range(3):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.001):
                await anext(loop)
        append(system, 0, [b"%d" % number])
        assert (await anext(loop)).data == b"%d" % number
    system.store.segments["s/t/0.#epoch.0"].start = 10**6
    system.store.segments["s/t/0.#epoch.0"].data += bytes(10**6)
    system.store.drop_connections()
    with pytest.raises(SegmentTruncatedError):
        await anext(loop)
    system.controller.seal_now("s", "t")
    system.store.segments["s/t/0.#epoch.0"].data[10**6 :] = frame_list([b"behind"])[0]
    assert [event.data async for event in loop] == [b"behind"]
    assert [event.data async for event in loop] == []


async def test_a_loop_that_nobody_refers_to_reads_no_more(system, client):
    system.controller.create("s", "t")
    append(system, 0, [b"one"])
    async for _ in client.read("s", "t", follow=True):
        break
    left = client.read("s", "t", follow=True)
    await anext(left)
    await left.aclose()
    with pytest.raises(StopAsyncIteration):
        await anext(left)
    await client.tail_cut("s", "t")
    asked = system.store.counts["ReadSegment"]
    append(system, 0, [b"two"])
    async with client.event_reader("s", "t", start="tail", end="tail") as reader:
        assert await read_all(reader) == []
    assert system.store.counts["ReadSegment"] == asked


async def _first(items, count):
    for _ in range(count):
        yield await anext(items)


async def test_bytes_that_are_no_events_are_reported_with_their_offset(system, client):
    system.controller.create("s", "t")
    append(system, 0, [b"abc"])
    system.store.segments["s/t/0.#epoch.0"].data += b"\x00\x00\x00\x01\x00\x00\x00\x01x"
    async with client.event_reader("s", "t") as reader:
        with pytest.raises(DataCorruptionError) as caught:
            await reader.next_batch()
        assert caught.value.offset == 11
        with pytest.raises(DataCorruptionError):  # and it stays that way
            await reader.next_batch()


# ------------------------------------------------------------------------------ cuts the stream does not have


def cut(**offsets):
    return StreamCut.from_offsets("s", "t", {int(each[1:]): offset for each, offset in offsets.items()})


@pytest.mark.slow
@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (cut(s0=23, s1=0), "ends at 22"),
        (cut(s0=15, s1=0), "no event begins at 15"),
        (cut(s0=4, s1=0), "no event begins at 4"),
        (cut(s0=11), "every key exactly once"),
        (cut(s0=11, s1=0, s7=0), r"segments \[7\].*never had"),
        (StreamCut.from_offsets("s", "t", {0: 11, (3 << 32) + 1: 0}), r"never had"),
    ],
)
@pytest.mark.parametrize("edge", ["start", "end"])
@pytest.mark.parametrize("sealed", [False, True])
async def test_a_cut_that_the_stream_does_not_have_is_refused_at_both_ends(
    system, client, edge, given, sentence, sealed
):
    system.controller.create("s", "t", 2)
    append(system, 0, [b"abc", b"def"])
    if sealed:
        system.controller.seal_now("s", "t")
    with pytest.raises(InvalidArgumentError, match=sentence):
        async with client.event_reader("s", "t", **{edge: given}):
            pass


async def test_a_cut_between_any_two_events_is_accepted_whatever_their_sizes(system, client):
    system.controller.create("s", "t")
    events = [b"x" * size for size in (1, 4095, 4096, 4097, 70_000, 8, 4080, 3)]
    append(system, 0, events)
    place = 0
    for event in events:
        await client.check_cut(cut(s0=place))
        with pytest.raises(InvalidArgumentError):
            await client.check_cut(cut(s0=place + 1))
        place += 8 + len(event)
    await client.check_cut(cut(s0=place))


async def test_a_truncation_to_a_place_inside_an_event_is_refused(system, client):
    system.controller.create("s", "t")
    append(system, 0, [b"abc", b"def"])
    with pytest.raises(InvalidArgumentError, match="no event begins at 15"):
        await client.truncate_stream(cut(s0=15))
    with pytest.raises(InvalidArgumentError, match="ends at 22"):
        await client.truncate_stream(cut(s0=23))
    with pytest.raises(InvalidArgumentError, match="never had"):
        await client.truncate_stream(cut(s5=0))
    assert system.controller.counts["truncateStream"] == 0
    await client.truncate_stream(cut(s0=11))
    system.store.segments["s/t/0.#epoch.0"].data[:] = b"bytes without events"
    await client.truncate_stream(cut(s0=15))
    assert system.controller.counts["truncateStream"] == 2
    system.store.segments["s/t/0.#epoch.0"].data[:] = bytes(8000) + b"\xff" * 2000
    with pytest.raises(InvalidArgumentError, match="any_offset"):
        await client.truncate_stream(cut(s0=9001))
    await client.truncate_stream(cut(s0=9001), any_offset=True)
    assert system.controller.counts["truncateStream"] == 3


async def test_a_start_behind_the_end_gives_nothing(system, client):
    system.controller.create("s", "t")
    append(system, 0, [b"abc", b"def"])
    end = cut(s0=11)
    left, right = system.controller.scale_now("s", "t", [0], split_evenly(FULL_RANGE, 2))
    append(system, left, [b"more"])
    start = StreamCut.from_offsets("s", "t", {left: 12, right: 0})
    async with client.event_reader("s", "t", start=start, end=end) as reader:
        assert await read_all(reader) == []
        assert reader.position() == start


# ------------------------------------------------------------------------------ streams created anew


async def test_a_reader_of_a_stream_that_was_created_anew_says_so_and_does_not_end(system, client):
    system.controller.create("s", "t")
    append(system, 0, [b"old"])
    for on_truncation in ("raise", "skip"):
        config = ReaderConfig(on_truncation=on_truncation)
        (segment_id,) = system.controller.epochs["s", "t"][0]
        async with client.event_reader("s", "t", start="tail", config=config) as reader:
            system.controller.create_anew("s", "t")
            append(system, segment_id + 1, [b"new"])
            if on_truncation == "raise":
                with pytest.raises(NoSuchSegmentError):
                    await reader.next_batch()
            for _ in range(2):
                with pytest.raises(NoSuchSegmentError, match="created anew"):
                    await reader.next_batch()


async def test_a_position_in_a_stream_that_was_deleted_is_refused(system, client):
    system.controller.create("s", "t")
    append(system, 0, [b"old"])
    async with client.event_reader("s", "t", end="tail") as reader:
        assert await read_all(reader) == [b"old"]
        position = reader.position()
    system.controller.create_anew("s", "t", 3)
    with pytest.raises(InvalidArgumentError, match=r"segments \[0\].*never had"):
        async with client.event_reader("s", "t", start=position):
            pass


async def test_the_tail_is_looked_up_again_if_the_stream_changed_meanwhile(system, client):
    system.controller.create("s", "t")
    outdated = system.controller._ranges(("s", "t"), system.controller.epochs["s", "t"][0])
    system.controller.create_anew("s", "t", 2)
    system.controller.outdated = [outdated]
    assert await client.tail_cut("s", "t") == cut(s1=0, s2=0)
    system.controller.outdated = [outdated] * 3
    with pytest.raises(NoSuchSegmentError):
        await client.tail_cut("s", "t")


async def test_successors_tell_the_end_of_a_stream_from_a_segment_it_never_had(system, client):
    system.controller.create("s", "t")
    system.controller.seal_now("s", "t")
    assert await client.successors("s", "t", 0) == []
    for strange in (1, (5 << 32) + 1):
        with pytest.raises(NoSuchSegmentError, match="never had"):
            await client.successors("s", "t", strange)
    with pytest.raises(NoSuchStreamError):
        await client.successors("s", "missing", 0)


# ------------------------------------------------------------------------------ scaling


async def test_successors_are_read_after_all_their_predecessors(system, client):
    system.controller.create("s", "t", 2)
    append(system, 0, [b"left"])
    append(system, 1, [b"right"])
    made = list(system.controller.scale_now("s", "t", [0, 1], [FULL_RANGE]))
    append(system, made[0], [b"merged"])
    system.controller.seal_now("s", "t")
    system.store.faults.drop_read = 0.2
    async with client.event_reader("s", "t") as reader:
        found = await read_all(reader)
    assert found[2:] == [b"merged"]
    assert sorted(found[:2]) == [b"left", b"right"]


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds(12))
async def test_order_per_key_holds_through_scaling_and_lost_connections(system, client, seed):
    chance = random.Random(seed)
    system.controller.create("s", "t", 2)
    keys = [f"key{number}" for number in range(15)]
    counters = dict.fromkeys(keys, 0)
    system.store.faults.random = random.Random(seed)
    system.store.faults.drop_read = 0.05 if seed % 2 else 0.0

    def write(count):
        for _ in range(count):
            key = chance.choice(keys)
            append_by_key(system, key, f"{key}:{counters[key]}".encode())
            counters[key] += 1

    def scale():
        current = sorted(system.controller.epochs["s", "t"][-1].items(), key=lambda item: item[1])
        at = chance.randrange(len(current))
        width = chance.randrange(1, len(current) - at + 1)
        chosen = current[at : at + width]
        whole = KeyRange(chosen[0][1].low, chosen[-1][1].high)
        pieces = split_evenly(whole, chance.choice([1, 2, 3]))
        system.controller.scale_now("s", "t", [each for each, _ in chosen], pieces)

    async def produce():
        for _ in range(8):
            write(100)
            await asyncio.sleep(chance.random() * 0.01)
            scale()
        write(100)
        system.controller.seal_now("s", "t")

    producer = asyncio.ensure_future(produce())
    found = {key: [] for key in keys}
    cut, restarts = None, 0
    while True:
        start = "head" if cut is None else cut
        async with client.event_reader("s", "t", start=start, config=SMALL) as reader:
            async for event in reader:
                key, _, number = event.data.decode().partition(":")
                found[key].append(int(number))
                if restarts < 10 and chance.random() < 0.01:
                    restarts += 1
                    break
            else:
                break
            cut = reader.position()
            reader.check()
    await producer
    assert found == {key: list(range(count)) for key, count in counters.items()}
    assert restarts > 0


async def test_a_position_is_a_cut_that_covers_the_key_space_at_every_event(system, client):
    from headrace.model.key_space import covers_key_space

    system.controller.create("s", "t", 3)
    for _ in range(3):
        for number in range(30):
            append_by_key(system, f"k{number}", b"event")
        current = list(system.controller.epochs["s", "t"][-1])
        pieces = 2 if len(current) == 3 else 3
        system.controller.scale_now("s", "t", current, split_evenly(FULL_RANGE, pieces))
    system.controller.seal_now("s", "t")
    ranges = {each: r for epoch in system.controller.epochs["s", "t"] for each, r in epoch.items()}
    async with client.event_reader("s", "t") as reader:
        async for _ in reader:
            assert covers_key_space([ranges[each] for each in reader.position().offsets])


async def test_a_completed_segment_in_a_start_cut_is_passed_over(system, client):
    system.controller.create("s", "t", 2)
    append(system, 0, [b"done"])
    append(system, 1, [b"right"])
    made = list(system.controller.scale_now("s", "t", [0], [KeyRange(0.0, 0.5)]))
    append(system, made[0], [b"next"])
    system.controller.seal_now("s", "t")
    start = StreamCut.from_offsets("s", "t", {0: -1, 1: 0})
    async with client.event_reader("s", "t", start=start) as reader:
        assert sorted(await read_all(reader)) == [b"next", b"right"]


async def test_a_segment_not_reached_yet_in_a_start_cut_waits_for_its_predecessors(system, client):
    system.controller.create("s", "t", 2)
    append(system, 1, [b"right"])
    thirds = split_evenly(FULL_RANGE, 3)
    made = list(system.controller.scale_now("s", "t", [0, 1], thirds))
    for segment_id, event in zip(made, [b"low", b"mid", b"high"], strict=True):
        append(system, segment_id, [event])
    system.controller.seal_now("s", "t")
    start = StreamCut.from_offsets("s", "t", {made[0]: 0, made[1]: -1, 1: 0})
    async with client.event_reader("s", "t", start=start) as reader:
        found = await read_all(reader)
    assert sorted(found) == [b"high", b"low", b"mid", b"right"]
    assert found.index(b"right") < found.index(b"mid")


# ------------------------------------------------------------------------------ truncation and errors


async def test_truncation_in_front_of_a_reader_is_raised_once_and_passed_over(system, client):
    system.controller.create("s", "t")
    append(system, 0, [b"aa", b"bb", b"cc"])
    system.store.segments["s/t/0.#epoch.0"].start = 20
    system.controller.seal_now("s", "t")
    async with client.event_reader("s", "t") as reader:
        with pytest.raises(SegmentTruncatedError) as caught:
            await reader.next_batch()
        assert (caught.value.start_offset, caught.value.offset) == (20, 0)
        assert reader.position().offsets == {0: 20}
        assert await read_all(reader) == [b"cc"]


async def test_truncation_is_skipped_silently_on_request(system, client):
    system.controller.create("s", "t")
    append(system, 0, [b"aa", b"bb", b"cc"])
    system.store.segments["s/t/0.#epoch.0"].start = 10
    system.controller.seal_now("s", "t")
    config = ReaderConfig(on_truncation="skip")
    async with client.event_reader("s", "t", config=config) as reader:
        assert await read_all(reader) == [b"bb", b"cc"]


async def test_a_deleted_segment_is_raised_once_and_its_successors_follow(system, client):
    system.controller.create("s", "t")
    made = list(system.controller.scale_now("s", "t", [0], [FULL_RANGE]))
    append(system, made[0], [b"new"])
    del system.store.segments["s/t/0.#epoch.0"]
    system.controller.seal_now("s", "t")
    async with client.event_reader("s", "t") as reader:
        with pytest.raises(NoSuchSegmentError):
            await reader.next_batch()
        assert await read_all(reader) == [b"new"]


async def test_a_missing_stream_and_a_foreign_cut_are_refused(system, client):
    system.controller.create("s", "t")
    with pytest.raises(NoSuchStreamError):
        await client.event_reader("s", "missing")
    with pytest.raises(InvalidArgumentError):
        await client.event_reader("s", "t", start=StreamCut.from_offsets("s", "other", {0: 0}))


async def test_a_closed_reader_keeps_its_position_and_refuses_to_read(system, client):
    system.controller.create("s", "t")
    append(system, 0, [b"abc"])
    reader = await client.event_reader("s", "t")
    await reader.next_batch()
    waiting = asyncio.ensure_future(reader.next_batch())
    await asyncio.sleep(0)
    await reader.close()
    with pytest.raises(ClosedError):
        await waiting
    assert reader.position().offsets == {0: 11}


@pytest.mark.slow
async def test_many_segments_share_a_bounded_window(system, client):
    system.controller.create("s", "t", 40)
    for number in range(40):
        append(system, number, [b"x" * 1000] * 50)
    system.controller.seal_now("s", "t")
    config = ReaderConfig(read_bytes_max=1 << 20, window_bytes_max=1 << 20)
    async with client.event_reader("s", "t", config=config) as reader:
        found = await read_all(reader)
    assert len(found) == 2000


# ------------------------------------------------------------------------------ ranges of segments


async def test_a_range_of_a_segment_is_read_as_bytes_and_as_events(system, client):
    system.controller.create("s", "t")
    events = [b"%d" % number for number in range(1000)]
    append(system, 0, events)
    raw = bytes(system.store.segments["s/t/0.#epoch.0"].data)
    assert await client.read_segment_range("s", "t", 0, 5, 5000).read_all() == raw[5:5000]
    async with client.read_segment_range("s", "t", 0, 0, len(raw)) as part:
        assert [data async for batch in part.batches() for data in batch] == events
    assert await client.read_segment_range("s", "t", 0, 7, 7).read_all() == b""


async def test_a_range_that_is_not_there_is_reported(system, client):
    system.controller.create("s", "t")
    append(system, 0, [b"abc"])
    system.controller.seal_now("s", "t")
    with pytest.raises(DataCorruptionError):
        await client.read_segment_range("s", "t", 0, 0, 100).read_all()
    batches = client.read_segment_range("s", "t", 0, 0, 100).batches()
    assert list(await anext(batches)) == [b"abc"]
    with pytest.raises(DataCorruptionError):
        await anext(batches)
    with pytest.raises(NoSuchSegmentError):
        await client.read_segment_range("s", "t", 9, 0, 100).read_all()
    with pytest.raises(InvalidArgumentError):
        client.read_segment_range("s", "t", 0, 5, 4)
