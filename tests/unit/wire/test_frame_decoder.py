"""The receive buffer: what it refuses, how it grows and shrinks, how long its views live."""

import struct

import pytest

from headrace.errors import ProtocolError
from headrace.limits import KIB, MIB
from headrace.wire import commands as c
from headrace.wire.frames import (
    CLIENT_PAYLOAD_BYTES_MAX,
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


def test_the_buffer_grows_for_one_larger_command_and_shrinks_after_a_quiet_while():
    decoder = FrameDecoder.for_server()
    ordinary = len(decoder.buffer)
    large = encode(c.AppendBlock(WRITER, bytes(4 * MIB)))
    decoder.feed(large[:100])
    assert decoder.next_frame() is None
    assert len(decoder.buffer) == ordinary  # nothing but a head has arrived
    decoder.get_buffer()
    assert len(decoder.buffer) == len(large) + RECEIVE_SLACK_BYTES
    decoder.feed(large[100:])
    assert decoder.next_frame() is not None
    grown = decoder.buffer
    decoder.feed(large)
    assert decoder.next_frame() is not None
    assert decoder.buffer is grown  # large commands come in series
    for _ in range(40):
        decoder.feed(encode(c.KeepAlive()))
        assert decoder.next_command() == c.KeepAlive()
    assert len(decoder.buffer) == ordinary
    assert decoder.statistics().frames_taken == 42


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
        assert len(room) >= 64 * KIB
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
