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
    assert ServerSession().on_hello(c.Hello(high, low)) == (c.Hello(17, 5), close)


def test_only_processes_of_ours_are_told_that_there_are_internal_commands():
    assert ServerSession().on_hello(c.Hello(1001, 5)) == (c.Hello(1002, 5), False)
    assert ServerSession().on_hello(c.Hello(1999, 5)) == (c.Hello(1002, 5), False)
    assert ServerSession().on_hello(c.Hello(2000, 5)) == (c.Hello(17, 5), False)


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
