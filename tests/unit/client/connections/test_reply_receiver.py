import random
import struct
from itertools import repeat

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.client.connections.reply_receiver import (
    HEADROOM_BYTES,
    RECEIVE_BUFFER_BYTES,
    SPARE_BYTES_MAX,
    SPARES_MAX,
    ReadBlock,
    ReplyReceiver,
)
from headrace.errors import ProtocolError
from headrace.wire.commands import DataAppended, NoSuchSegment, ReadSegment, SegmentRead, TableKeysRead
from headrace.wire.frames import decode_payload, encode


def feed(receiver, raw, sizes, *, acknowledgements=False):
    """Deliver bytes in pieces of the given sizes; return the replies as commands or (offset, data).

    With ``acknowledgements`` these are taken the short way, as tuples.
    """
    found, at = [], 0
    while at < len(raw):
        room = receiver.get_buffer()
        size = min(len(room), next(sizes), len(raw) - at)
        room[:size] = raw[at : at + size]
        at += size
        receiver.buffer_updated(size)
        receiver.check()
        while True:
            while acknowledgements and (taken := receiver.next_acknowledgement()) is not None:
                found.append(taken)
            if (reply := receiver.next_reply()) is None:
                break
            if isinstance(reply, ReadBlock):
                found.append((reply.offset, bytes(reply.data), reply.request_id, reply.end_of_segment))
            else:
                found.append(decode_payload(*reply))
    return found


def pieces(chance):
    while True:
        yield chance.choice([1, 7, 8, 9, 100, 1000, 65536, 1 << 20])


@given(st.integers(0, 1 << 32))
def test_replies_come_out_whatever_pieces_they_arrive_in(seed):
    chance = random.Random(seed)
    short = chance.random() < 0.5
    replies, expected = [], []
    for number in range(chance.randrange(1, 15)):
        kind = chance.randrange(4)
        if kind == 0:
            reply = DataAppended(chance.randbytes(16), number, number - 1, 5, 99)
            expected.append((reply.writer_id, number, number - 1, 99) if short else reply)
        elif kind == 1:
            reply = NoSuchSegment(number, "s/t/0.#epoch.0")
            expected.append(reply)
        elif kind == 2:
            reply = TableKeysRead(number, "table", [], chance.randbytes(chance.choice([0, 70_000])))
            expected.append(reply)
        else:
            data = chance.randbytes(chance.choice([0, 1, 500, 65_000, 200_000]))
            reply = SegmentRead("s/t/0.#epoch.0", number, False, bool(number % 2), data, 77)
            expected.append((number, data, 77, bool(number % 2)))
        replies.append(encode(reply))
    assert feed(ReplyReceiver(), b"".join(replies), pieces(chance), acknowledgements=short) == expected


def test_an_acknowledgement_without_its_late_fields_is_no_short_one():
    raw = encode(DataAppended(b"w" * 16, 7, 6, 5, 99))
    old = struct.pack(">ii", 7, len(raw) - 8 - 16) + raw[8:-16]
    found = feed(ReplyReceiver(), old + raw, repeat(1), acknowledgements=True)
    assert found == [DataAppended(b"w" * 16, 7, 6, -1, -1), (b"w" * 16, 7, 6, 99)]


def test_a_reply_cut_at_the_end_of_the_buffer_is_moved_whole():
    replies = [DataAppended(bytes([number % 256]) * 16, number, number - 1, 5, 99) for number in range(5000)]
    raw = b"".join(map(encode, replies))
    assert RECEIVE_BUFFER_BYTES % (len(raw) // 5000)  # so one of them is cut
    assert feed(ReplyReceiver(), raw, repeat(1 << 20)) == replies


def test_a_large_read_lands_in_its_own_buffer_with_room_in_front():
    receiver = ReplyReceiver()
    raw = encode(SegmentRead("s/t/0.#epoch.0", 5, False, False, b"x" * 300_000, 1))
    room = receiver.get_buffer()
    room[:] = raw[: len(room)]
    receiver.buffer_updated(len(room))
    assert receiver.next_reply() is None
    rest = receiver.get_buffer()
    assert len(rest) == len(raw) - len(room)  # not a byte of the next reply
    rest[:] = raw[len(room) :]
    receiver.buffer_updated(len(rest))
    block = receiver.next_reply()
    assert isinstance(block, ReadBlock)
    assert block.begin > HEADROOM_BYTES
    assert bytes(block.data) == b"x" * 300_000
    assert len(receiver.get_buffer()) == len(room)


@pytest.mark.parametrize(
    "raw",
    [
        encode(ReadSegment("s", 0, 1, "")),  # a request
        bytes.fromhex("00000009ffffffff"),  # negative length
        bytes.fromhex("0000000a7fffffff"),  # too long
        bytes.fromhex("7777777700000004") + bytes(4),  # unknown
        bytes.fromhex("0000000a00000002") + bytes(2),  # a read that ends early
        encode(SegmentRead("s", 0, False, False, b"abc", 1))[:21] + b"\x7f" + bytes(14),  # a length that lies
    ],
)
def test_what_is_no_reply_is_refused(raw):
    receiver = ReplyReceiver()
    room = receiver.get_buffer()
    room[: len(raw)] = raw
    receiver.buffer_updated(len(raw))
    with pytest.raises(ProtocolError):
        receiver.next_reply()


def read_reply(receiver, fill, size=200_000):
    raw = encode(SegmentRead("s", 0, False, False, bytes([fill]) * size, 1))
    at = 0
    while at < len(raw):
        room = receiver.get_buffer()
        count = min(len(room), len(raw) - at)
        room[:count] = raw[at : at + count]
        at += count
        receiver.buffer_updated(count)
        receiver.check()
        block = receiver.next_reply()
    return block


def test_a_buffer_nobody_refers_to_receives_another_reply():
    receiver = ReplyReceiver()
    places = set()
    for number in range(50):
        block = read_reply(receiver, number, 200_000 - number)
        assert bytes(block.data) == bytes([number]) * (200_000 - number)
        places.add(id(block.buffer))
    assert len(places) <= 2


@pytest.mark.slow
@pytest.mark.parametrize("hold", ["block", "buffer", "view", "slice", "array", "arrow"])
def test_a_buffer_somebody_refers_to_in_whatever_way_is_left_alone(hold):
    numpy, arrow = pytest.importorskip("numpy"), pytest.importorskip("pyarrow")
    receiver = ReplyReceiver()
    ways = {
        "block": lambda block: block,
        "buffer": lambda block: block.buffer,
        "view": lambda block: block.data,
        "slice": lambda block: block.data[10:20][2:4],
        "array": lambda block: numpy.frombuffer(block.buffer, numpy.uint8)[5000:],
        "arrow": lambda block: arrow.py_buffer(block.data).slice(100),
    }
    held = []
    for number in range(30):
        block = read_reply(receiver, number)
        held.append((number, ways[hold](block), bytes(block.buffer)))
        del block
    for number, kept, content in held:
        data = kept.buffer if hold == "block" else bytes(kept)
        assert data in content
        assert number in data
    if hold == "slice":
        assert len({bytes(kept) for _, kept, _ in held}) == 30


def test_little_is_kept_for_replies_to_come():
    receiver = ReplyReceiver()
    blocks = [read_reply(receiver, 0) for _ in range(50)]
    assert len(receiver._spares) == SPARES_MAX
    del blocks
    read_reply(receiver, 0, 5 << 20)
    assert sum(map(len, receiver._spares)) <= SPARES_MAX * SPARE_BYTES_MAX
    receiver.forget_spares()
    assert not receiver._spares
    assert bytes(read_reply(receiver, 9).data) == bytes([9]) * 200_000
