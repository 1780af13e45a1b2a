"""Readers of every kind of a stream with records, and what becomes of events in it that are none."""

import asyncio
import random
from datetime import UTC, datetime

import pyarrow as pa
import pytest

from headrace.client import ReaderConfig, StreamCut
from headrace.client.blocking import connect as connect_blocking
from headrace.client.framing.event_frames import frame_list
from headrace.client.framing.event_framing import find_frames
from headrace.client.reader.event_batch import EventBatch
from headrace.client.reader.record_batch import Record, RecordBatch, not_a_record, split_records
from headrace.client.records.envelope import datetime_of, encode_headers, prefix_of
from headrace.errors import EventNotRecordError, InvalidArgumentError, UnsupportedError
from headrace.model.names import segment_name
from tests.effort import seeds

RECORDS = ["headrace.records=1"]
NOON = datetime(2026, 11, 25, 12, tzinfo=UTC)
NOON_MS = 1_795_608_000_000
PLAIN = b"a plain event"


def record(value, key=None, time_ms=NOON_MS, headers=None):
    return prefix_of(key, time_ms, encode_headers(headers)) + value


def append(system, events, segment_id=0, stream="t"):
    segment = system.store.segments[segment_name("s", stream, segment_id)]
    segment.data += frame_list(events)[0]
    segment.wake()


def batch_of(events, offset=1000):
    data, _ = frame_list(events)
    buffer = b"before" + data + b"behind"
    return EventBatch("s", "t", 0, buffer, find_frames(buffer, 6, 6 + len(data)), offset)


# ------------------------------------------------------------------------------ batches


def random_events(rng, count, plain):
    events, rows = [], []
    for _ in range(count):
        if rng.random() < plain:
            events.append(rng.choice([PLAIN, b"x", b"\xfe\1short", b"\xfe\2" + bytes(40)]))
            rows.append(None)
            continue
        key = rng.choice([None, "", "k", "ä" * rng.randrange(40)])
        headers = {f"h{n}": bytes(rng.randrange(9)) for n in range(rng.choice([0, 0, 1, 5]))}
        time_ms, value = rng.randrange(-(10**12), 10**13), bytes(rng.randrange(60))
        events.append(record(value, key, time_ms, headers))
        rows.append((value, datetime_of(time_ms), None if key is None else key.encode(), headers))
    return events, rows


@pytest.mark.parametrize("count", [1, 5, 40, 500])
@pytest.mark.parametrize("plain", [0.0, 0.2, 1.0])
@pytest.mark.parametrize("seed", seeds(3))
def test_records_of_a_batch_are_those_that_were_written(seed, plain, count):
    events, rows = random_events(random.Random(seed), count, plain)
    batch = batch_of(events)
    parts = split_records(batch)
    offsets = batch.event_offsets()
    assert [each for part in parts for each in part.event_offsets()] == offsets
    at = 0
    for part in parts:
        wanted = rows[at : at + len(part)]
        if isinstance(part, RecordBatch):
            found = list(part.events())
            assert [(e.data, e.time, e.key, dict(e.headers)) for e in found] == wanted
            assert [e.end_offset for e in found] == [*part.event_offsets()[1:], part.end_offset]
            assert part.payloads() == list(part) == part.to_arrow().to_pylist() == [row[0] for row in wanted]
            columns = part.to_record_batch().to_pydict()
            assert columns["headers"] == [list(row[3].items()) for row in wanted]
            assert list(zip(columns["event"], columns["time"], columns["key"], strict=True)) == [
                row[:3] for row in wanted
            ]
            if len(part) > 2:
                middle = part.behind(1).first(1)
                assert middle.to_record_batch().to_pydict()["key"] == [wanted[1][2]]
                assert [e.data for e in middle.events()] == [wanted[1][0]]
        else:
            assert wanted == [None] * len(part)
            assert not_a_record(part).offset == part.start_offset
        at += len(part)


def test_a_record_says_what_it_is():
    (part,) = split_records(batch_of([record(b"v", "k", headers={"h": b"x"})]))
    (event,) = part.events()
    assert isinstance(event, Record)
    assert repr(event) == (
        "Record(data=b'v', time='2026-11-25T12:00:00.000+00:00', key=b'k', headers={'h': b'x'}, "
        "segment_id=0, offset=1000)"
    )
    assert event == next(part.events())
    assert event != Record(record(b"v", "k"), 0, 1000)


DAMAGED = [b"\1", b"\1a\0", b"\1a\0\1", b"\0\0\0", b"\1\xff\0\0", encode_headers({"a": b""}) * 65]


@pytest.mark.parametrize("damaged", DAMAGED)
@pytest.mark.parametrize("count", [1, 100])
def test_damaged_headers_are_told_with_their_place(damaged, count):
    fine = record(b"fine", headers={"a": b"b"})
    events = [fine] * count + [prefix_of("k", 0, damaged)]
    (batch,) = split_records(batch_of(events))
    place = batch.event_offsets()[-1]
    with pytest.raises(EventNotRecordError, match=f"event at {place} of segment 0 .*are damaged"):
        batch.to_record_batch()
    *_, last = batch.events()
    assert (last.key, last.data) == (b"k", b"")
    with pytest.raises(EventNotRecordError, match="headers are damaged"):
        last.headers  # noqa: B018 - asking is the test
    assert "headers=damaged" in repr(last)


# ------------------------------------------------------------------------------ readers


async def test_a_reader_unwraps(system, client):
    system.controller.create("s", "t", tags=RECORDS)
    append(system, [record(b'{"n":1}', "k", headers={"h": b"x"}), record(b"2", time_ms=0)])
    async with client.event_reader("s", "t", end="tail", serializer="json") as reader:
        first, second = [event async for event in reader]
        assert (first.value, first.time, first.key, first.headers) == ({"n": 1}, NOON, b"k", {"h": b"x"})
        assert (second.value, second.time, second.key, second.headers) == (2, datetime_of(0), None, {})
        assert reader.position() == StreamCut.from_offsets("s", "t", {0: second.end_offset})


async def test_events_of_other_streams_have_no_time(system, client):
    system.controller.create("s", "t")
    append(system, [record(b"x", "k")])
    async for event in client.read("s", "t"):
        assert (event.data, event.time, event.key, event.headers) == (record(b"x", "k"), None, None, {})


async def test_what_is_not_about_events_sees_the_envelope(system, client):
    system.controller.create("s", "t", tags=RECORDS)
    append(system, [record(b"x", "k")])
    async with client.read_segment_range("s", "t", 0, 0, 8 + len(record(b"x", "k"))) as part:
        assert [each async for batch in part.batches() for each in batch] == [record(b"x", "k")]


MIXED = [record(b"1"), PLAIN, PLAIN, record(b"2"), record(b"3"), PLAIN]
PLACES = [0, 23, 44, 65, 88, 111, 132]


async def test_a_plain_event_is_told_once_with_its_place(system, client):
    system.controller.create("s", "t", tags=RECORDS)
    append(system, MIXED)
    told = []
    async with client.event_reader("s", "t", end="tail") as reader:
        while True:
            before = reader.position().offsets[0]
            try:
                event = await anext(reader, None)
            except EventNotRecordError as error:
                told.append((error.stream, error.segment_id, error.offset - before, error.offset))
                continue
            if event is None:
                break
            told.append(event.data)
        assert reader.position().offsets == {0: PLACES[-1]}
    at = [("s/t", 0, 0, place) for place in (23, 44, 111)]
    assert told == [b"1", *at[:2], b"2", b"3", at[2]]


async def test_a_plain_event_is_told_after_a_wait_for_it_was_cancelled(system, client):
    system.controller.create("s", "t", tags=RECORDS)
    append(system, MIXED[:2])
    async with client.event_reader("s", "t") as reader:
        assert (await reader.next_batch()).payloads() == [b"1"]
        await reader.fill()  # what a wait that is cancelled late has done
        assert reader.position().offsets == {0: 23}
        with pytest.raises(EventNotRecordError, match=r"event at 23 .*: 13 bytes are too few"):
            await reader.next_batch()
        assert reader.position().offsets == {0: 44}


@pytest.mark.parametrize("size", [1024, 960 * 1024])
async def test_plain_events_are_left_out_if_that_is_asked_for(system, client, size):
    system.controller.create("s", "t", tags=RECORDS)
    append(system, MIXED * 40)
    config = ReaderConfig(read_bytes_max=size)
    async with client.event_reader("s", "t", end="tail", on_error="skip", config=config) as reader:
        found = [event.data async for event in reader]
        assert reader.position().offsets == {0: PLACES[-1] * 40}
    assert found == [b"1", b"2", b"3"] * 40
    limited = client.read("s", "t", limit=4, on_error="skip", config=config)
    assert [event.data async for event in limited] == [b"1", b"2", b"3", b"1"]
    with pytest.raises(InvalidArgumentError, match="on_error"):
        client.event_reader("s", "t", on_error="null")


async def test_a_reader_goes_on_behind_each_place_that_it_was_at(system, client):
    system.controller.create("s", "t", tags=RECORDS)
    append(system, MIXED)
    for place, rest in zip(PLACES, [3, 2, 2, 2, 1, 0, 0], strict=True):
        start = StreamCut.from_offsets("s", "t", {0: place})
        found = [e.data async for e in client.read("s", "t", start=start, on_error="skip")]
        assert found == [b"1", b"2", b"3"][3 - rest :]


async def test_records_become_tables(system, client):
    system.controller.create("s", "t", tags=RECORDS)
    stream = client.stream("s", "t")
    empty = await stream.to_arrow()
    append(system, [record(b'{"n":1,"key":"own"}', "k", headers={"h": b"x"}), record(b'{"n":2}', "l", 0)])
    table = await stream.to_arrow()
    assert table.schema == empty.schema
    assert table.to_pydict() == {
        "event": [b'{"n":1,"key":"own"}', b'{"n":2}'],
        "time": [NOON, datetime_of(0)],
        "key": [b"k", b"l"],
        "headers": [[("h", b"x")], []],
        "segment_id": [0, 0],
        "offset": [0, 47],
    }
    members = await stream.to_arrow(serializer="json")
    assert members.column_names == ["n", "key", "time", "headers", "segment_id", "offset"]
    assert members["key"].to_pylist() == ["own", None]
    assert (await stream.to_arrow(serializer="utf8"))["event"].type == pa.string()
    frame = await stream.to_pandas()
    assert frame["time"][0] == NOON
    assert frame["headers"][0] == [("h", b"x")]
    assert (await stream.to_polars())["key"].to_list() == [b"k", b"l"]
    append(system, [PLAIN])
    with pytest.raises(EventNotRecordError):
        await stream.to_arrow()
    assert (await stream.to_arrow(on_error="skip")).num_rows == 2
    append(system, [record(b"no json")])
    assert (await stream.to_arrow(on_error="skip", serializer="json")).num_rows == 2
    with pytest.raises(EventNotRecordError):
        await stream.to_arrow(on_error="null", serializer="json")


async def test_records_of_a_version_to_come_are_not_read(system, client):
    system.controller.create("s", "t", tags=["headrace.records=2"])
    with pytest.raises(UnsupportedError, match="records of a version that this client does not know"):
        await client.event_reader("s", "t")


async def test_readers_of_threads_unwrap(system):
    system.controller.create("s", "t", tags=RECORDS)
    append(system, MIXED)

    def read():
        with connect_blocking(system.uri) as client, client.event_reader("s", "t", end="tail") as reader:
            found = [next(reader).time]
            with pytest.raises(EventNotRecordError, match="event at 23"):
                next(reader)
            with pytest.raises(EventNotRecordError, match="event at 44"):
                reader.next_batch()
            batch = reader.next_batch()
            found += batch.to_record_batch()["time"].to_pylist()
            assert [e.data for e in client.read("s", "t", on_error="skip")] == [b"1", b"2", b"3"]
            return found

    assert await asyncio.to_thread(read) == [NOON] * 3
