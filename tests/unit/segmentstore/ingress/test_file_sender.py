"""Answers out of files: right whatever the socket takes and whatever becomes of the file."""

import asyncio
import os
import random
import socket

import pytest

from headrace.limits import KIB, MIB
from headrace.runtime import loops
from headrace.runtime.open_file import FileSpan, OpenFile
from headrace.segmentstore.contract import ReadResult
from headrace.segmentstore.ingress.budget import ByteBudget
from headrace.segmentstore.ingress.outbox import SPAN_BYTES_MIN, Outbox
from tests.unit.segmentstore.ingress.world import FakeTransport

CONTENT = random.Random(1).randbytes(3 * MIB)
LENGTH = 1 * MIB
OFFSET = 12_345


class Result(ReadResult):
    """An answer of ``length`` bytes that lie in memory and in a file."""

    def __init__(self, file, offset=OFFSET, length=LENGTH):
        super().__init__(0, [memoryview(CONTENT)[offset : offset + length]], span=FileSpan(file, offset))
        self.released = 0
        self.on_release = self._count

    def _count(self):
        self.released += 1


class SocketTransport(FakeTransport):
    """What a transport is asked for beside a socket of which the test reads the other end."""

    __module__ = "uvloop.loop"

    def __init__(self, extra):
        super().__init__()
        self.extra = extra

    def get_extra_info(self, name):
        return self.extra.get(name)

    def is_closing(self):
        return self.closing

    def writelines(self, pieces):
        self.write(b"".join(pieces))


class Place:
    """An outbox before a socket that takes ``room`` bytes or a little more until somebody reads."""

    def __init__(self, tmp_path, room=8 * MIB, **extra):
        self.path = tmp_path / "chunk"
        self.path.write_bytes(CONTENT)
        self.file = OpenFile(os.open(self.path, os.O_RDONLY))
        self.near, self.far = socket.socketpair()
        self.near.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, room)
        self.near.setblocking(False)
        self.far.setblocking(False)
        self.transport = SocketTransport({"socket": self.near, **extra})
        self.outbox = Outbox(1 * MIB, lambda: None, ByteBudget(512 * MIB))
        self.transport.protocol = type(
            "Protocol", (), {"pause_writing": self.outbox.on_pause, "resume_writing": self.outbox.on_resume}
        )
        self.outbox.open(self.transport)

    def received(self):
        """Return what the socket took, and after it what the transport was given."""
        taken = []
        try:
            while data := self.far.recv(1 * MIB):
                taken.append(data)
        except BlockingIOError:
            pass
        return b"".join([*taken, *self.transport.written])

    def close(self):
        self.near.close()
        self.far.close()
        if self.file.descriptor >= 0:
            os.close(self.file.descriptor)


@pytest.fixture
async def make(tmp_path):
    places = []

    def make(**arguments):
        places.append(Place(tmp_path, **arguments))
        return places[-1]

    yield make
    for place in places:
        place.outbox.close()
        place.close()


def expected(length=LENGTH):
    return b"before<" + CONTENT[OFFSET : OFFSET + length] + b">"


async def test_a_large_answer_leaves_out_of_its_file_with_what_was_sent_before_it(make):
    for room in (1 * KIB, 20 * KIB, 100 * KIB, 500 * KIB, 8 * MIB):
        place = make(room=room)
        result = Result(place.file)
        place.outbox.send(b"before")
        place.outbox.send_read(b"<", result, b">")
        assert place.received() == expected()
        assert result.released == 1
        statistics = place.outbox.statistics()
        assert statistics.bytes_sent == len(expected())
        assert 0 < statistics.bytes_of_files <= LENGTH
        assert (statistics.bytes_of_files == LENGTH) == (room == 8 * MIB)


async def test_what_the_socket_does_not_take_is_held_until_the_transport_has_sent_it(make):
    place = make(room=100 * KIB)
    place.transport.stuck = True
    first, second = Result(place.file), Result(place.file)
    place.outbox.send(b"before")
    place.outbox.send_read(b"<", first, b">")
    place.outbox.send(b"before")
    place.outbox.send_read(b"<", second, b">")  # behind the rest of the first, which waits in the transport
    assert (first.released, second.released) == (0, 0)
    place.transport.drain()
    assert (first.released, second.released) == (1, 1)
    assert place.received() == 2 * expected()


@pytest.mark.parametrize("case", ["closed", "shorter", "empty", "no file"])
async def test_a_file_that_fails_costs_nothing_because_memory_has_the_bytes(make, case):
    place = make()
    if case == "closed":
        os.close(place.file.descriptor)
        place.file.descriptor = -1
    elif case == "shorter":
        os.truncate(place.path, OFFSET + 300 * KIB)
    elif case == "empty":
        os.truncate(place.path, 0)
    else:
        os.close(place.file.descriptor)
        place.file.descriptor = os.open(place.path.parent, os.O_RDONLY)
    place.outbox.send(b"before")
    place.outbox.send_read(b"<", Result(place.file), b">")
    assert place.received() == expected()
    assert place.outbox.statistics().bytes_of_files == (300 * KIB if case == "shorter" else 0)


async def test_a_lost_connection_is_left_to_the_transport(make):
    place = make()
    place.far.close()
    result = Result(place.file)
    place.outbox.send(b"before")
    place.outbox.send_read(b"<", result, b">")
    assert b"".join(place.transport.written) == expected()
    assert result.released == 1


async def test_small_answers_are_not_sent_around_the_transport(make):
    place = make()
    place.outbox.send(b"before")
    place.outbox.send_read(b"<", Result(place.file, length=SPAN_BYTES_MIN - 1), b">")
    assert b"".join(place.transport.written) == expected(SPAN_BYTES_MIN - 1)


async def test_the_second_handle_of_the_socket_goes_with_the_connection(make):
    place = make()
    place.outbox.send_read(b"before<", Result(place.file), b">")
    assert place.received() == expected()
    place.near.close()  # as the transport does it
    with pytest.raises(BlockingIOError):
        place.far.recv(1)
    place.outbox.close()
    assert place.far.recv(1) == b""


async def test_without_a_descriptor_to_spare_answers_come_from_memory(make, monkeypatch):
    place = make()

    def refuse(_):
        raise OSError(24, "too many open files")

    monkeypatch.setattr(os, "dup", refuse)
    place.outbox.send(b"before")
    place.outbox.send_read(b"<", Result(place.file), b">")
    assert b"".join(place.transport.written) == expected()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_answers_of_every_kind_arrive_in_order_over_a_real_transport(tmp_path, seed):
    """Small frames, answers from memory and from the file, to a client that takes them unevenly."""
    pytest.importorskip("uvloop")
    path = tmp_path / "chunk"
    path.write_bytes(CONTENT)
    file = OpenFile(os.open(path, os.O_RDONLY))
    chance = random.Random(seed)
    results, sent = [], []

    class Server(asyncio.Protocol):
        def connection_made(self, transport):
            self.transport = transport
            self.outbox = outbox = Outbox(64 * MIB, lambda: None, ByteBudget(512 * MIB))
            outbox.open(transport)
            self.resume_writing, self.pause_writing = outbox.on_resume, outbox.on_pause
            servers.set_result(self)

        def connection_lost(self, error):
            self.outbox.close()

        def answer(self):
            """Send something, three times in four several things in one turn."""
            outbox = self.outbox
            while True:
                kind = chance.randrange(4)
                if kind == 0:
                    frame = chance.randbytes(chance.randrange(1, 3000))
                    outbox.send(frame)
                    sent.append(frame)
                else:
                    length = chance.randrange(1, (100 * KIB, LENGTH, LENGTH)[kind - 1])
                    offset = chance.randrange(len(CONTENT) - length)
                    result = Result(file, offset, length)
                    if kind == 1:
                        result.span = None
                    outbox.send_read(b"<", result, b">")
                    sent.append(b"<" + CONTENT[offset : offset + length] + b">")
                    results.append(result)
                if kind == 0 and chance.randrange(4):
                    return

    async def scenario():
        nonlocal servers
        loop = asyncio.get_running_loop()
        servers = loop.create_future()
        listener = await loop.create_server(Server, "127.0.0.1", 0)
        client = socket.socket()
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, chance.choice([8, 200, 4000]) * KIB)
        client.setblocking(False)
        await loop.sock_connect(client, listener.sockets[0].getsockname())
        server = await servers
        arrived = bytearray()
        for _ in range(12):
            server.answer()
            await asyncio.sleep(0)
            wanted = chance.randrange(sum(map(len, sent)) - len(arrived) + 1)
            while wanted > 0:
                data = await loop.sock_recv(client, min(wanted, 256 * KIB))
                arrived += data
                wanted -= len(data)
        total = sum(map(len, sent))
        while len(arrived) < total:
            arrived += await loop.sock_recv(client, 1 * MIB)
        assert arrived == b"".join(sent)
        await asyncio.sleep(0)
        server.outbox.flush()
        assert [result.released for result in results] == [1] * len(results)
        statistics = server.outbox.statistics()
        assert statistics.bytes_sent == total
        assert 0 < statistics.bytes_of_files < total
        client.close()
        server.transport.abort()
        listener.close()
        await listener.wait_closed()

    servers = None
    loops.run(scenario(), kind="uvloop")
    os.close(file.descriptor)
