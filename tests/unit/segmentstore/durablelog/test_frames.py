"""Operations of any size survive being packed into frames of any size, and what a crash leaves behind is
known."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import DataCorruptionError
from headrace.segmentstore.durablelog.frame_builder import FrameBuilder
from headrace.segmentstore.durablelog.frame_format import ENTRY_HEADER, FRAME_HEADER, VERSION, WHOLE
from headrace.segmentstore.durablelog.frame_reader import FrameReader
from tests.unit.segmentstore.durablelog.memory_wal import ScriptedWal


def build(operations, frame_bytes, frames=400):
    wal = ScriptedWal(frame_bytes=frame_bytes, frames=frames)
    builder = FrameBuilder(wal, lambda change: None)
    for number, data in enumerate(operations, 1):
        pieces = [data[:3], data[3:]] if len(data) > 3 else [data]
        assert builder.write(pieces, len(data), number, number)
    builder.seal()
    out = []
    items = []
    while builder.ready:
        frame = builder.take_ready(7)
        out.append(bytes(frame.view[: frame.frame.length]))
        items.append(list(frame.items))
    return out, items


def read(frames, first=1):
    reader = FrameReader()
    return [
        bytes(operation)
        for address, payload in enumerate(frames, first)
        for operation in reader.feed(address, memoryview(payload))
    ]


sizes = st.lists(st.integers(1, 900), min_size=1, max_size=30)


@given(sizes, st.integers(100, 400))
def test_operations_come_back_in_order_whatever_the_frame_size(lengths, frame_bytes):
    operations = [bytes([n % 251]) * size for n, size in enumerate(lengths)]
    frames, items = build(operations, frame_bytes)
    assert read(frames) == operations
    assert [item for frame in items for item in frame] == list(range(1, len(operations) + 1))
    assert all(len(frame) <= frame_bytes for frame in frames)


@given(sizes, st.integers(100, 400), st.data())
def test_any_prefix_of_frames_gives_a_prefix_of_operations(lengths, frame_bytes, data):
    operations = [bytes([n % 251]) * size for n, size in enumerate(lengths)]
    frames, items = build(operations, frame_bytes)
    keep = data.draw(st.integers(0, len(frames)))
    whole = sum(len(frame) for frame in items[:keep])
    assert read(frames[:keep]) == operations[:whole]


@given(sizes, st.integers(100, 400), st.data())
def test_a_log_cut_at_any_frame_skips_only_the_operation_it_cuts(lengths, frame_bytes, data):
    operations = [bytes([n % 251]) * size for n, size in enumerate(lengths)]
    frames, items = build(operations, frame_bytes)
    drop = data.draw(st.integers(0, len(frames) - 1))
    rest = read(frames[drop:], first=drop + 1)
    assert rest == operations[len(operations) - len(rest) :]
    ended_before = sum(len(frame) for frame in items[:drop])
    assert len(rest) >= len(operations) - ended_before - 1


def test_an_operation_whose_writer_died_is_replaced_by_the_next_one():
    first, _ = build([b"a" * 300], 120)
    second, _ = build([b"b" * 10], 120)
    assert read([*first[:-1], *second]) == [b"b" * 10]


@pytest.mark.parametrize("rest", [1, -1])
def test_an_operation_whose_writer_died_never_goes_on_behind_the_next_one(rest):
    """A middle or last entry behind a whole one continues nothing, whatever was incomplete before that."""
    dead, _ = build([b"a" * 300], 120)
    whole, _ = build([b"b" * 10], 120)
    assert len(dead) > 3
    with pytest.raises(DataCorruptionError, match="continues nothing"):
        read([dead[0], *whole, dead[rest]])


def test_a_continuation_out_of_nowhere_is_corruption():
    spanning, _ = build([b"a" * 300], 120)
    whole, _ = build([b"b" * 10], 120)
    with pytest.raises(DataCorruptionError, match="continues nothing"):
        read([*whole, spanning[1]])


@given(st.binary(max_size=120))
def test_a_garbled_frame_is_corruption(garbage):
    with pytest.raises(DataCorruptionError):
        read([garbage + b"x"])


def test_a_frame_of_another_version_and_an_entry_of_nothing_are_corruption():
    (frame,), _ = build([b"a" * 50], 120)
    header = FRAME_HEADER.pack(VERSION, 0, 0, ENTRY_HEADER.size, 7)
    for damaged in (bytes((VERSION + 1,)) + frame[1:], header + ENTRY_HEADER.pack(0, WHOLE)):
        with pytest.raises(DataCorruptionError):
            read([damaged])


def test_the_log_may_be_cut_in_front_of_the_frame_in_which_an_operation_begins():
    frames, _ = build([b"a" * 20, b"b" * 300, b"c" * 20], 120)
    reader = FrameReader()
    begins = [
        reader.start_address
        for address, payload in enumerate(frames)
        for _ in reader.feed(address, memoryview(payload))
    ]
    assert len(frames) > 3
    for number, begin in enumerate(begins):
        assert len(read(frames[begin:])) >= 3 - number, "it is still whole"


def test_frames_out_of_order_are_corruption():
    frames, _ = build([b"a" * 50], 120)
    reader = FrameReader()
    list(reader.feed(5, memoryview(frames[0])))
    with pytest.raises(DataCorruptionError, match="follows"):
        list(reader.feed(5, memoryview(frames[0])))
