"""What is sent: order, one write per turn, views until sent, turns of those who wait."""

import asyncio

import pytest

from headrace.limits import KIB, MIB
from headrace.segmentstore.contract import ReadResult
from headrace.segmentstore.ingress.budget import ByteBudget
from headrace.segmentstore.ingress.outbox import JOIN_BYTES_MAX, Outbox
from tests.unit.segmentstore.ingress.world import FakeTransport


class Protocol:
    def __init__(self, outbox):
        self.pause_writing = outbox.on_pause
        self.resume_writing = outbox.on_resume


class Result(ReadResult):
    def __init__(self, size, pieces=4):
        super().__init__(0)
        self.pieces = [memoryview(bytes(size // pieces)) for _ in range(pieces)]
        self.released = 0
        self.on_release = self._count

    def _count(self):
        self.released += 1


class _Unjoinable:
    """A piece for which there is no memory."""

    def __len__(self):
        return 0


@pytest.fixture
async def drained():
    return []


@pytest.fixture
async def outbox(drained):
    return Outbox(1 * MIB, lambda: drained.append(1), ByteBudget(512 * MIB))


@pytest.fixture
async def transport(outbox):
    transport = FakeTransport()
    transport.protocol = Protocol(outbox)
    outbox.open(transport)
    return transport


async def test_frames_of_one_turn_are_one_write(outbox, transport):
    for n in range(100):
        outbox.send(b"%d," % n)
    assert transport.written == []
    await asyncio.sleep(0)
    assert transport.written == [b"".join(b"%d," % n for n in range(100))]
    outbox.send(b"later")
    await asyncio.sleep(0)
    assert transport.written[1:] == [b"later"]


async def test_a_small_answer_is_joined_and_keeps_its_place(outbox, transport):
    result = Result(JOIN_BYTES_MAX)
    outbox.send(b"a")
    outbox.send_read(b"<", result, b">")
    outbox.send(b"b")
    assert result.released == 1
    await asyncio.sleep(0)
    assert transport.written == [b"a<" + bytes(JOIN_BYTES_MAX) + b">b"]


async def test_a_large_answer_is_written_piece_by_piece_and_keeps_its_place(outbox, transport):
    result = Result(64 * KIB)
    outbox.send(b"a")
    outbox.send_read(b"<", result, b">")
    outbox.send(b"b")
    await asyncio.sleep(0)
    assert transport.written == [b"a<", *[bytes(16 * KIB)] * 4, b">b"]
    assert result.released == 1


@pytest.mark.parametrize(
    "sizes", [[4000] * 300, [4000, 70_000, 100, 16 * KIB, 4000], [16 * KIB - 1] * 5 + [90_000]]
)
async def test_small_pieces_of_a_large_answer_are_joined_and_nothing_changes_place(outbox, transport, sizes):
    result = Result(0)
    data = [bytes([n % 251]) * size for n, size in enumerate(sizes)]
    result.pieces = [memoryview(piece) for piece in data]
    outbox.send(b"a")
    outbox.send_read(b"<", result, b">")
    await asyncio.sleep(0)
    assert b"".join(transport.written) == b"".join([b"a<", *data, b">"])
    assert len(transport.written) <= 3 + sum(sizes) // JOIN_BYTES_MAX + sum(
        size >= 16 * KIB for size in sizes
    )
    assert result.released == 1


async def test_views_are_held_until_everything_is_sent(outbox, transport):
    transport.stuck = True
    results = [Result(64 * KIB) for _ in range(3)]
    for result in results:
        outbox.send_read(b"<", result, b">")
    await asyncio.sleep(0)
    assert [result.released for result in results] == [0, 0, 0]
    assert outbox.statistics().results_held == 3
    transport.drain()
    assert [result.released for result in results] == [1, 1, 1]
    outbox.close()
    assert [result.released for result in results] == [1, 1, 1]


async def test_who_always_has_something_unsent_does_not_have_all_held_that_was_ever_sent(outbox, transport):
    """It takes as much as it asks for, and a little less than all of it is always on its way."""
    transport.stuck = True
    results = []
    for _ in range(100):
        results.append(Result(64 * KIB))
        outbox.send_read(b"<", results[-1], b">")
        await asyncio.sleep(0)
        transport.unsent = min(transport.unsent, 200 * KIB)
        assert not outbox.full
        assert outbox.statistics().results_held <= 5
    assert [result.released for result in results[-3:]] == [0, 0, 0]
    transport.drain()
    assert [result.released for result in results] == [1] * 100


@pytest.mark.parametrize("size", [32 * KIB, 64 * KIB])
async def test_an_answer_that_cannot_be_sent_is_released_at_the_latest_with_its_connection(
    outbox, transport, size
):
    def fail(_):
        raise MemoryError

    result = Result(size)
    if size <= JOIN_BYTES_MAX:
        result.pieces.append(_Unjoinable())
    else:
        transport.write = fail
    with pytest.raises((MemoryError, TypeError)):
        outbox.send_read(b"<", result, b">")
    outbox.close()
    assert result.released == 1


async def test_a_lost_connection_releases_what_it_held_and_what_still_comes(outbox, transport):
    transport.stuck = True
    held, late = Result(64 * KIB), Result(64 * KIB)
    outbox.send_read(b"<", held, b">")
    outbox.close()
    assert held.released == 1
    outbox.send_read(b"<", late, b">")
    assert late.released == 1
    outbox.send(b"nobody")
    await asyncio.sleep(0)


async def test_the_outbox_is_full_only_beyond_its_bound(outbox, transport, drained):
    transport.stuck = True
    outbox.send(bytes(1 * MIB))
    outbox.flush()
    assert not outbox.full
    outbox.send(b"x")
    outbox.flush()
    assert outbox.full
    transport.drain()
    assert not outbox.full
    assert drained == [1]


async def test_the_outbox_is_full_of_small_writes_as_well(outbox, transport, drained):
    transport.stuck = True
    writes = 0
    while not outbox.full:
        outbox.send(b"small")
        await asyncio.sleep(0)
        writes += 1
        assert writes < 2000, "a transport may go through all it holds at each write"
    assert writes > 1000
    transport.drain()
    assert not outbox.full
    assert drained == [1]


async def test_turns_are_given_in_order_one_at_a_time_and_pass_over_the_cancelled(outbox, transport):
    transport.stuck = True
    outbox.send(bytes(2 * MIB))
    outbox.flush()
    order = []

    async def wait(name, fills):
        await outbox.wait_send_slot()
        order.append(name)
        if fills:
            transport.stuck = True
            outbox.send(bytes(2 * MIB))
            outbox.flush()
        outbox.release_send_slot()

    tasks = [asyncio.ensure_future(wait(n, fills=n == 2)) for n in range(6)]
    await asyncio.sleep(0)
    assert order == []
    tasks[0].cancel()
    transport.drain()
    for _ in range(20):
        await asyncio.sleep(0)
    assert order == [1, 2]
    tasks[3].cancel()  # has not been given its turn
    await asyncio.sleep(0)
    transport.drain()
    tasks[4].cancel()  # has just been given it
    for _ in range(20):
        await asyncio.sleep(0)
    assert order == [1, 2, 5]
    assert all(task.done() for task in tasks)


async def test_a_lost_connection_lets_everybody_go(outbox, transport):
    transport.stuck = True
    outbox.send(bytes(2 * MIB))
    outbox.flush()
    gone = []

    async def wait(name):
        await outbox.wait_send_slot()
        gone.append(name)
        outbox.release_send_slot()

    tasks = [asyncio.ensure_future(wait(n)) for n in range(3)]
    await asyncio.sleep(0)
    outbox.close()
    await asyncio.gather(*tasks)
    assert gone == [0, 1, 2]


class VectorTransport(FakeTransport):
    """Takes many pieces at once, as uvloop's transports do."""

    __module__ = "uvloop.loop"

    def __init__(self):
        super().__init__()
        self.vectors = []

    def writelines(self, pieces):
        self.vectors.append([len(piece) for piece in pieces])
        self.write(b"".join(pieces))


async def test_a_large_answer_leaves_in_one_call_where_the_transport_can(outbox):
    transport = VectorTransport()
    transport.protocol = Protocol(outbox)
    outbox.open(transport)
    outbox.send(b"a")
    outbox.send_read(b"<", Result(64 * KIB), b">")
    assert transport.vectors == [[2, *[16 * KIB] * 4, 1]]
    result = Result(40 * KIB, pieces=40)
    transport.stuck = True
    outbox.send_read(b"<<", result, b">>")
    assert sum(transport.vectors[1]) == 40 * KIB + 4
    assert len(transport.vectors[1]) == 2
    assert result.released == 0
    outbox.send(b"b")
    await asyncio.sleep(0)
    transport.drain()
    assert result.released == 1
    assert b"".join(transport.written) == b"a<" + bytes(64 * KIB) + b"><<" + bytes(40 * KIB) + b">>b"
