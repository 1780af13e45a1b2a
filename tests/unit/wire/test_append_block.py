"""Appends out of blocks and ends: shapes, runs, violations."""

import random
import struct
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.errors import ProtocolError
from headrace.wire import commands as c
from headrace.wire.append_block import (
    BATCH_BYTES_MAX,
    BATCH_COUNT_MAX,
    AppendBatch,
    reassemble,
    take_batch,
    wanted,
)
from headrace.wire.frames import SERVER_PAYLOAD_BYTES_MAX, FrameDecoder, encode
from tests.effort import examples

GOLDEN = Path(__file__).parents[2] / "golden" / "wire" / "v17"
WRITER = bytes(range(16))
OTHER = bytes(16)


def event(payload):
    return struct.pack(">ii", 0, len(payload)) + payload


def shape_a(data, number=1, events=1, request_id=7, writer=WRITER):
    return encode(c.AppendBlockEnd(writer, len(data), data, events, number, request_id))


def shape_b(data, number=1, events=1, request_id=7, writer=WRITER):
    return encode(c.AppendBlock(writer, data)) + encode(
        c.AppendBlockEnd(writer, len(data), b"", events, number, request_id)
    )


def shape_padding(data, spare, number=1, events=1, request_id=7, writer=WRITER):
    filler = struct.pack(">ii", -1, spare) + bytes(spare)
    return encode(c.AppendBlock(writer, data + filler)) + encode(
        c.AppendBlockEnd(writer, len(data), b"", events, number, request_id)
    )


def shape_partial(data, whole, first, number=1, events=1, request_id=7, writer=WRITER):
    part = data[whole : whole + first]
    filler = struct.pack(">ii", -2, len(part)) + part
    return encode(c.AppendBlock(writer, data[:whole] + filler)) + encode(
        c.AppendBlockEnd(writer, whole, data[whole + first :], events, number, request_id)
    )


def take(stream, begin=0):
    buffer = bytearray(stream)
    batch = AppendBatch()
    end = take_batch(buffer, memoryview(buffer), begin, len(buffer), batch)
    batch.check()
    return end, batch


def joined(batch):
    return b"".join(batch.pieces)


@pytest.mark.parametrize(
    ("files", "whole", "number"),
    [
        (["append_block_end_alone"], 28, 2),
        (["append_block_padding", "append_block_end_padding"], 28, 2),
        (["append_block_partial", "append_block_end_partial"], 13, 4),
    ],
)
def test_the_golden_appends_hold_the_same_28_bytes(files, whole, number):
    stream = b"".join((GOLDEN / f"{name}.bin").read_bytes() for name in files)
    end, batch = take(stream)
    assert end == len(stream)
    assert joined(batch) == event(b"hello") + event(b"pravega")
    assert (batch.numbers, batch.event_count, batch.request_ids) == ([number], 2, [1 << 32])
    commands = [FrameDecoder() for _ in files]
    taken = []
    for decoder, name in zip(commands, files, strict=True):
        decoder.feed((GOLDEN / f"{name}.bin").read_bytes())
        taken.append(decoder.next_command())
    if len(taken) == 2:
        assert taken[1].size_of_whole_events == whole
        pieces = reassemble(taken[0].data, whole, taken[1].data)
        assert b"".join(pieces) == joined(batch)


def appends():
    data = st.binary(min_size=0, max_size=60)
    return st.one_of(
        data.map(lambda d: (d, shape_a)),
        data.map(lambda d: (d, shape_b)),
        st.tuples(data, st.integers(0, 30)).map(
            lambda t: (t[0], lambda d, **k: shape_padding(d, t[1], **k)),
        ),
        st.tuples(st.binary(min_size=1, max_size=60), st.integers(0, 60), st.integers(1, 60)).map(
            lambda t: (
                t[0],
                lambda d, **k: shape_partial(d, min(t[1], len(d) - 1), t[2], **k),
            )
        ),
    )


@pytest.mark.slow
@given(st.lists(appends(), min_size=1, max_size=12), st.data())
@settings(max_examples=examples(200))
def test_shapes_and_chunking_do_not_change_what_is_appended(plan, data):
    stream = b""
    for index, (payload, shape) in enumerate(plan):
        stream += shape(payload, number=index + 1, events=2, request_id=index)
    buffer = bytearray(stream)
    view = memoryview(buffer)
    batch = AppendBatch()
    begin = arrived = 0
    got, numbers, ids, events = b"", [], [], 0
    while begin < len(stream):
        arrived = min(len(stream), arrived + data.draw(st.integers(1, 200)))
        while True:
            after = take_batch(buffer, view, begin, arrived, batch)
            batch.check()
            if after == begin:
                if begin < arrived:
                    assert arrived - begin < wanted(buffer, begin, arrived) <= len(stream) - begin
                break
            got += joined(batch)
            numbers += batch.numbers
            ids += batch.request_ids
            events += batch.event_count
            begin = after
    assert got == b"".join(payload for payload, _ in plan)
    assert numbers == list(range(1, len(plan) + 1))
    assert ids == list(range(len(plan)))
    assert events == 2 * len(plan)


def test_every_truncation_waits_for_more_and_never_takes_a_part():
    for shape in (shape_a, shape_b):
        stream = shape(event(b"abc"))
        for cut in range(len(stream)):
            end, batch = take(stream[:cut])
            assert end == 0
            assert not batch.numbers
            assert wanted(bytearray(stream[:cut]), 0, cut) > cut


def test_ten_thousand_appends_in_one_buffer_become_runs_of_bounded_size():
    stream = b"".join(shape_b(event(b"x" * 92), number=i + 1, request_id=i) for i in range(10_000))
    begin, count, numbers = 0, 0, []
    buffer = bytearray(stream)
    batch = AppendBatch()
    while begin < len(buffer):
        begin = take_batch(buffer, memoryview(buffer), begin, len(buffer), batch)
        batch.check()
        assert batch.size < BATCH_BYTES_MAX + 100
        assert len(batch.numbers) <= BATCH_COUNT_MAX
        count += 1
        numbers += batch.numbers
    assert numbers == list(range(1, 10_001))
    assert count == 10


def test_one_append_larger_than_a_run_is_a_run_of_its_own():
    stream = shape_a(bytes(BATCH_BYTES_MAX + 1), number=1) + shape_a(b"x", number=2)
    end, batch = take(stream)
    assert batch.numbers == [1]
    end, batch = take(stream, end)
    assert batch.numbers == [2]
    assert end == len(stream)


def test_a_run_ends_before_another_writer_another_command_and_a_number_that_does_not_increase():
    first = shape_b(b"a", number=5)
    for follower in (
        shape_b(b"b", number=6, writer=OTHER),
        encode(c.KeepAlive()) * 8,
        encode(c.ConditionalBlockEnd(WRITER, 6, 0, b"b", 1)),
        shape_b(b"b", number=5),
        shape_b(b"b", number=4),
    ):
        end, batch = take(first + follower)
        assert end == len(first)
        assert batch.numbers == [5]


def test_an_end_without_request_id_gets_minus_one():
    frame = shape_a(b"abc")[:-8]
    frame = frame[:4] + struct.pack(">i", len(frame) - 8) + frame[8:]
    _, batch = take(frame + shape_b(b"d", number=2))
    assert batch.request_ids == [-1, 7]
    assert joined(batch) == b"abcd"


def test_bytes_behind_the_request_id_are_ignored():
    frame = shape_a(b"abc") + b"future"
    frame = frame[:4] + struct.pack(">i", len(frame) - 8) + frame[8:]
    _, batch = take(frame + shape_b(b"d", number=2))
    assert batch.request_ids == [7, 7]
    assert joined(batch) == b"abcd"


def test_an_empty_append_is_an_append():
    _, batch = take(shape_a(b"") + shape_b(b"", number=2) + shape_padding(b"", 0, number=3))
    assert batch.numbers == [1, 2, 3]
    assert batch.pieces == []
    assert batch.size == 0


BLOCK = c.AppendBlock(WRITER, b"0123456789")


def end_of(**changes):
    values = {
        "size_of_whole_events": 10,
        "data": b"",
        "num_events": 1,
        "last_event_number": 1,
        "request_id": 1,
    }
    writer = changes.pop("writer_id", WRITER)
    return encode(c.AppendBlockEnd(writer, *(values | changes).values()))


def nested(type_id, length, body=b""):
    return encode(c.AppendBlock(WRITER, b"01" + struct.pack(">ii", type_id, length) + body))


VIOLATIONS = {
    "no events": encode(BLOCK) + end_of(num_events=0),
    "negative events": encode(BLOCK) + end_of(num_events=-1),
    "whole events beyond the block": encode(BLOCK) + end_of(size_of_whole_events=11),
    "negative whole events": encode(BLOCK) + end_of(size_of_whole_events=-1),
    "another writer ends": encode(BLOCK) + end_of(writer_id=OTHER),
    "too little for a nested head": encode(BLOCK) + end_of(size_of_whole_events=3),
    "a nested event": nested(0, 2, b"xx") + end_of(size_of_whole_events=2),
    "a nested frame beyond its block": nested(-1, 3, b"xx") + end_of(size_of_whole_events=2),
    "a nested frame of negative length": nested(-1, -1, b"xx") + end_of(size_of_whole_events=2),
    "data behind padding": nested(-1, 2, b"\0\0") + end_of(size_of_whole_events=2, data=b"x"),
    "two blocks": encode(BLOCK) * 3,
    "keep-alives instead of the end": encode(BLOCK) + encode(c.KeepAlive()) * 8,
    "no events alone": shape_a(b"abc", events=0),
    "data beyond the end": shape_a(b"abc")[:28] + struct.pack(">i", 1000) + shape_a(b"abc")[32:],
    "negative data": shape_a(b"abc")[:28] + struct.pack(">i", -1) + shape_a(b"abc")[32:],
    "a hostile end": encode(BLOCK) + struct.pack(">ii", 4, SERVER_PAYLOAD_BYTES_MAX + 1) + bytes(60),
    "a hostile block": struct.pack(">ii", 3, -5) + bytes(60),
    "a block without a writer": struct.pack(">ii", 3, 15) + bytes(60),
    "an end without its numbers": struct.pack(">ii", 4, 35) + bytes(60),
}


@pytest.mark.parametrize("name", VIOLATIONS)
def test_a_violation_is_a_protocol_error(name):
    with pytest.raises(ProtocolError):
        take(VIOLATIONS[name])


@pytest.mark.parametrize("name", VIOLATIONS)
def test_appends_in_front_of_a_violation_are_taken(name):
    good = shape_b(b"good", number=-5)
    end, batch = take(good + VIOLATIONS[name])
    assert end == len(good)
    assert joined(batch) == b"good"


def test_heads_that_cannot_become_an_append_are_refused_before_their_payload():
    for stream in (
        struct.pack(">ii", 3, SERVER_PAYLOAD_BYTES_MAX + 1),
        struct.pack(">ii", 3, 15),
        struct.pack(">ii", 4, 35),
        struct.pack(">ii", 4, -1),
        encode(BLOCK) + struct.pack(">ii", 100, 0),
        encode(BLOCK) + struct.pack(">ii", 3, 16),
        encode(BLOCK) + struct.pack(">ii", 4, SERVER_PAYLOAD_BYTES_MAX + 1),
    ):
        assert take(stream)[0] == 0
        with pytest.raises(ProtocolError):
            wanted(bytearray(stream), 0, len(stream))


def test_garbage_is_appends_then_nothing_or_a_protocol_error():
    source = random.Random(11)
    template = shape_a(b"0123456789", number=3) + shape_padding(b"abc", 9, number=4) + shape_b(b"z", number=5)
    refused = 0
    for _ in range(5000):
        stream = bytearray(template)
        for _ in range(source.randint(1, 3)):
            stream[source.randrange(len(stream))] = source.randrange(256)
        begin = 0
        try:
            while True:
                batch = AppendBatch()
                after = take_batch(stream, memoryview(stream), begin, len(stream), batch)
                batch.check()
                if after == begin:
                    break
                begin = after
        except ProtocolError:
            refused += 1
    assert 100 < refused < 5000


def test_what_a_run_claims_to_hold_fits_32_bits():
    """Nobody verifies how many events a writer claims, but the log counts those of a batch in 32 bits."""
    claimed = 0x7FFF_FFFF
    stream = b"".join(shape_a(b"x", number, claimed) for number in range(1, 6))
    begin, counts = 0, []
    while begin < len(stream):
        begin, batch = take(stream, begin)
        batch.check()
        counts.append(batch.event_count)
    assert counts == [2 * claimed, 2 * claimed, claimed]
