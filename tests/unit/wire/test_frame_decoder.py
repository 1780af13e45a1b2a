"""The receive buffer: what it refuses, how it grows and shrinks, how long its views live."""

import struct

import pytest

from headrace.errors import ProtocolError
from headrace.limits import KIB, MIB
from headrace.wire import commands as c
from headrace.wire.frames import (
    CLIENT_PAYLOAD_BYTES_MAX,
    IDLE_BUFFER_BYTES,
    RECEIVE_BUFFER_BYTES,
    RECEIVE_SLACK_BYTES,
    SERVER_PAYLOAD_BYTES_MAX,
    FrameDecoder,
    decode_payload,
    encode,
)

WRITER = bytes(range(16))


@pytest.mark.parametrize(
    ("type_id", "length"),
    [
        (3, -1),
        (3, -(1 << 31)),
        (3, SERVER_PAYLOAD_BYTES_MAX + 1),
        (3, (1 << 31) - 1),
        (9999, 4),
        (2, 4),
        (6, 0),
    ],
)
def test_a_server_refuses_a_hostile_head_before_its_payload(type_id, length):
    decoder = FrameDecoder.for_server()
    decoder.feed(encode(c.KeepAlive()))
    decoder.feed(struct.pack(">ii", type_id, length))
    size_before = len(decoder.buffer)
    assert decoder.next_command() == c.KeepAlive()
    for _ in range(3):
        with pytest.raises(ProtocolError):
            decoder.next_command()
    assert len(decoder.buffer) == size_before


def test_the_largest_frames_are_accepted():
    head = struct.pack(">ii", 3, SERVER_PAYLOAD_BYTES_MAX)
    decoder = FrameDecoder.for_server()
    decoder.feed(head)
    assert decoder.next_frame() is None
    decoder.feed(bytes(SERVER_PAYLOAD_BYTES_MAX - 1))
    assert decoder.next_frame() is None
    decoder.feed(b"x")
    type_id, payload = decoder.next_frame()
    assert (type_id, len(payload)) == (3, SERVER_PAYLOAD_BYTES_MAX)
    assert payload[-1:] == b"x"

    decoder = FrameDecoder.for_client()
    decoder.feed(struct.pack(">ii", 10, CLIENT_PAYLOAD_BYTES_MAX))
    assert decoder.next_frame() is None
    decoder = FrameDecoder.for_client()
    decoder.feed(struct.pack(">ii", 10, CLIENT_PAYLOAD_BYTES_MAX + 1))
    with pytest.raises(ProtocolError):
        decoder.next_frame()


def test_a_client_refuses_requests_and_a_server_replies():
    decoder = FrameDecoder.for_client()
    decoder.feed(encode(c.SealSegment(1, "s", "")))
    with pytest.raises(ProtocolError):
        decoder.next_command()
    decoder = FrameDecoder.for_server()
    decoder.feed(encode(c.SegmentSealed(1, "s")))
    with pytest.raises(ProtocolError):
        decoder.next_command()


def test_commands_in_front_of_damage_are_taken():
    decoder = FrameDecoder.for_server()
    decoder.feed(encode(c.Hello(16, 5)) + encode(c.KeepAlive()) + b"\x7f" * 8)
    taken = []
    with pytest.raises(ProtocolError):
        taken.extend(decoder.commands())
    # extend keeps what it got before the error
    assert taken == [c.Hello(16, 5), c.KeepAlive()]


def test_data_are_views_of_the_buffer_and_not_copies():
    decoder = FrameDecoder.for_server()
    decoder.feed(encode(c.AppendBlock(WRITER, b"0123456789")))
    block = decoder.next_command()
    assert isinstance(block.data, memoryview)
    assert block.data == b"0123456789"
    decoder.buffer[24:26] = b"ab"
    assert block.data == b"ab23456789"


def receive(decoder, stream):
    """Hand ``stream`` over as a socket would; return the frames taken and the largest buffer seen."""
    at = taken = largest = 0
    while at < len(stream):
        room = decoder.get_buffer()
        size = min(len(room), len(stream) - at)
        room[:size] = stream[at : at + size]
        decoder.buffer_updated(size)
        at += size
        largest = max(largest, len(decoder.buffer))
        decoder.check()
        while decoder.next_frame() is not None:
            taken += 1
    return taken, largest


def test_the_buffer_grows_with_the_load_and_shrinks_after_a_quiet_while():
    decoder = FrameDecoder.for_server()
    assert len(decoder.buffer) == IDLE_BUFFER_BYTES
    small = encode(c.AppendBlock(WRITER, bytes(100)))
    assert receive(decoder, small * 10_000) == (10_000, RECEIVE_BUFFER_BYTES)
    for _ in range(200):
        assert receive(decoder, small)[0] == 1
    assert len(decoder.buffer) == IDLE_BUFFER_BYTES
    assert decoder.statistics().frames_taken == 10_200


def test_the_buffer_grows_for_one_larger_command_and_serves_more_of_its_kind():
    decoder = FrameDecoder.for_server()
    large = encode(c.AppendBlock(WRITER, bytes(4 * MIB)))
    taken, largest = receive(decoder, large)
    assert taken == 1
    assert len(large) <= largest <= len(large) + RECEIVE_SLACK_BYTES
    grown = decoder.buffer
    assert receive(decoder, large * 3)[0] == 3
    assert decoder.buffer is grown
    for _ in range(200):
        decoder.feed(encode(c.KeepAlive()))
        assert decoder.next_command() == c.KeepAlive()
    assert len(decoder.buffer) == IDLE_BUFFER_BYTES


def test_an_announced_length_alone_costs_nothing():
    decoder = FrameDecoder.for_server()
    head = struct.pack(">ii", 3, SERVER_PAYLOAD_BYTES_MAX)
    received = 0
    for piece in (head, *[bytes(10_000)] * 200):
        decoder.feed(piece)
        received += len(piece)
        assert decoder.next_frame() is None
        assert len(decoder.get_buffer()) >= 1
        assert len(decoder.buffer) <= max(RECEIVE_BUFFER_BYTES, 4 * received)


def test_an_untaken_backlog_is_kept_whole():
    decoder = FrameDecoder(buffer_bytes=64)
    stream = encode(c.Hello(1, 2)) * 1000
    decoder.feed(stream)
    assert decoder.pending_bytes == len(stream)
    assert list(decoder.commands()) == [c.Hello(1, 2)] * 1000


def test_there_is_always_room_for_a_byte():
    decoder = FrameDecoder(buffer_bytes=64)
    for _ in range(300):
        room = decoder.get_buffer()
        assert len(room) >= 1
        room[0] = 0
        decoder.buffer_updated(1)
        decoder.check()
    assert len(decoder.buffer) < 300 + 2 * RECEIVE_SLACK_BYTES


def test_reads_stay_large_when_a_little_is_left_over_each_time():
    decoder = FrameDecoder.for_server()
    frame = encode(c.AppendBlock(WRITER, bytes(60 * KIB)))
    stream = frame * 40
    at = rooms = 0
    while at < len(stream):
        room = decoder.get_buffer()
        assert rooms == 0 or len(room) >= 64 * KIB
        size = min(len(room), len(stream) - at)
        room[:size] = stream[at : at + size]
        decoder.buffer_updated(size)
        at += size
        rooms += 1
        while decoder.next_frame() is not None:
            pass
    assert rooms <= 16
    assert decoder.pending_bytes == 0


def test_an_unknown_type_cannot_be_decoded():
    with pytest.raises(ProtocolError):
        decode_payload(72, b"")
