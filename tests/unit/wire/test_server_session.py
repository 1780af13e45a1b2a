"""What a server lets a client say."""

import pytest

from headrace.errors import ProtocolError
from headrace.wire import commands as c
from headrace.wire import server_session
from headrace.wire.server_session import ServerSession

WRITER = bytes(range(16))
OTHER = bytes(16)


@pytest.mark.parametrize(
    ("high", "low", "close"),
    [
        (16, 5, False),
        (15, 5, False),
        (17, 17, False),
        (99, 18, True),
        (4, 1, True),
        (5, 5, False),
        (1 << 30, 0, False),
    ],
)
def test_hello_is_always_answered_and_only_incompatible_peers_are_closed(high, low, close):
    session = ServerSession()
    assert session.on_hello(c.Hello(high, low)) == (c.Hello(17, 5), close)
    assert session.peer == c.Hello(high, low)


def test_event_numbers_start_at_zero_and_never_go_back():
    session = ServerSession()
    registration = session.register(WRITER, "s")
    registration.on_numbers(0, 0)
    registration.on_numbers(0, 5)
    registration.on_numbers(5, 5)
    with pytest.raises(ProtocolError):
        registration.on_numbers(4, 9)
    with pytest.raises(ProtocolError):
        session.register(OTHER, "s").on_numbers(-1, -1)


def test_the_latest_set_up_of_a_writer_counts():
    session = ServerSession()
    session.register(WRITER, "a").on_numbers(9, 9)
    session.register(WRITER, "b")
    assert session.get_writer(WRITER).segment == "b"
    session.get_writer(WRITER).on_numbers(1, 1)
    assert session.writer_count == 1
    session.forget(WRITER)
    session.forget(WRITER)
    with pytest.raises(ProtocolError):
        session.get_writer(WRITER)


def test_writers_of_one_connection_are_bounded(monkeypatch):
    monkeypatch.setattr(server_session, "WRITERS_MAX", 3)
    session = ServerSession()
    for index in range(3):
        session.register(bytes([index]) * 16, "s")
    session.register(bytes(16), "t")
    with pytest.raises(ProtocolError):
        session.register(b"\xff" * 16, "s")


BLOCK = c.AppendBlock(WRITER, b"x")
END = c.AppendBlockEnd(WRITER, 1, b"", 1, 1, 1)


@pytest.mark.parametrize(
    "commands",
    [
        [c.AppendBlock(OTHER, b"")],
        [c.AppendBlockEnd(OTHER, 0, b"", 1, 1, 1)],
        [c.ConditionalAppend(OTHER, 1, 0, b"", 1)],
        [c.ConditionalBlockEnd(OTHER, 1, 0, b"", 1)],
        [c.AppendBlockEnd(WRITER, 0, b"", 0, 1, 1)],
        [c.AppendBlockEnd(WRITER, 0, b"", 1, -1, 1)],
        [END, END, c.ConditionalBlockEnd(WRITER, 0, 0, b"", 1)],
        [BLOCK, BLOCK],
        [BLOCK, c.KeepAlive()],
        [BLOCK, c.SetupAppend(1, WRITER, "s", "")],
        [BLOCK, c.Padding(b"")],
        [BLOCK, c.AppendBlockEnd(OTHER, 0, b"", 1, 1, 1)],
        [c.PartialEvent(b"x")],
        [c.SegmentSealed(1, "s")],
    ],
)
def test_a_violation_is_raised_by_its_last_command(commands):
    session = ServerSession()
    session.register(WRITER, "s")
    for command in commands[:-1]:
        session.on_command(command)
    with pytest.raises(ProtocolError):
        session.on_command(commands[-1])


def test_a_lawful_conversation_passes():
    session = ServerSession()
    session.on_command(c.Hello(16, 5))
    session.on_command(c.SetupAppend(1, WRITER, "s", ""))
    session.register(WRITER, "s")
    for command in [
        BLOCK,
        END,
        c.Padding(b"\0"),
        c.KeepAlive(),
        c.ConditionalBlockEnd(WRITER, 2, 0, b"", 1),
        BLOCK,
    ]:
        session.on_command(command)
    session.on_command(c.AppendBlockEnd(WRITER, 1, b"", 1, 3, 1))
    session.on_command(c.ReadSegment("s", 0, 1, "", 1))
