"""A large append that fails by a mistake of ours while it is handed over: its container ends, and no
connection waits for it.
"""

import pytest

from headrace.limits import MIB
from headrace.segmentstore.operations import codec
from tests.unit.segmentstore.container.container_bench import read_all
from tests.unit.segmentstore.ingress.held_world import HeldWorld
from tests.unit.segmentstore.ingress.world import NULL, OTHER, SEGMENT, WRITER, Peer, acked, append, block

THIRD = bytes(range(32, 48))


@pytest.fixture
async def world():
    world = await HeldWorld().start()
    yield world
    await world.home.supervisor.stop()
    await world.bench.stop()


def fail(*_):
    raise ZeroDivisionError


def fail_later(function):
    """Return a function that does as ``function`` once, and fails then."""
    calls = [function]

    def call(*arguments):
        return calls.pop()(*arguments) if calls else fail()

    return call


@pytest.mark.slow
@pytest.mark.parametrize("where", ["encoding", "writing", "the second frame"])
@pytest.mark.parametrize(
    "in_flight", [None, WRITER, OTHER], ids=["alone", "behind its own", "behind another"]
)
async def test_nobody_waits_for_a_large_append_that_failed(world, monkeypatch, where, in_flight):
    peer, neighbour = Peer(world.home), Peer(world.home)
    await peer.set_up()
    await peer.set_up(OTHER)
    await neighbour.set_up(THIRD)
    assert await peer.ask(append(1, b"one")) == [acked(1, NULL, 3)]
    world.wal.held = True
    neighbour.feed(append(1, b"x", writer=THIRD))
    if in_flight is not None:
        peer.feed(append(2, b"two", writer=in_flight))
    builder = world.container.log.processor._builder
    with monkeypatch.context() as patched:
        match where:
            case "encoding":
                patched.setattr(codec, "encode", fail)
            case "writing":
                patched.setattr(builder, "write", fail)
            case "the second frame":
                patched.setattr(builder, "_open", fail_later(builder._open))
        peer.feed(block(3, bytes(5 * MIB)))
    world.wal.go_on()
    for each in (peer, neighbour):
        await each.replies(30)
        assert each.connection.statistics()["writers_in_flight"] == 0
    assert peer.lost
    assert not peer.transport.aborted
    assert not world.container.online
    neighbour.transport.abort()
    await neighbour.replies()
    container = await world.bench.start()
    data = await read_all(container, SEGMENT)
    assert data.startswith(b"one")
    assert data.replace(b"x", b"") in (b"one", b"onetwo")
