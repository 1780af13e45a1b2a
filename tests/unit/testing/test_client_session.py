"""What a client lets a server say."""

import pytest

from headrace.errors import InvalidArgumentError, ProtocolError
from headrace.limits import INT64_MIN
from headrace.testing.client_session import ClientSession, Phase
from headrace.wire import commands as c

WRITER = bytes(range(16))


def open_session(*writers):
    session = ClientSession()
    assert session.start() == c.Hello(17, 5)
    session.on_reply(c.Hello(16, 5))
    for writer in writers:
        session.on_sent(c.SetupAppend(1, writer, "s", ""))
        session.on_reply(c.AppendSetup(1, "s", writer, INT64_MIN))
    return session


def append(number, request_id=7):
    return c.AppendBlockEnd(WRITER, 0, b"x", 1, number, request_id)


def test_the_greeting_opens_the_connection():
    session = ClientSession()
    assert session.phase is Phase.NEW
    with pytest.raises(InvalidArgumentError):
        session.on_sent(c.KeepAlive())
    session.start()
    assert session.phase is Phase.GREETING
    session.on_reply(c.Hello(17, 5))
    assert session.phase is Phase.OPEN
    assert session.server == c.Hello(17, 5)
    with pytest.raises(ProtocolError):
        session.on_reply(c.Hello(17, 5))


@pytest.mark.parametrize(("high", "low"), [(4, 1), (30, 18)])
def test_an_incompatible_server_is_refused(high, low):
    session = ClientSession()
    session.start()
    with pytest.raises(ProtocolError):
        session.on_reply(c.Hello(high, low))


def test_a_request_is_answered_once_by_its_id_and_only_by_a_reply_it_may_get():
    session = open_session()
    session.on_sent(c.SealSegment(5, "s", ""))
    with pytest.raises(ProtocolError):
        session.on_reply(c.SegmentSealed(6, "s"))
    with pytest.raises(ProtocolError):
        session.on_reply(c.SegmentTruncated(5, "s"))
    assert not session.idle
    session.on_reply(c.SegmentIsSealed(5, "s"))
    assert session.idle
    with pytest.raises(ProtocolError):
        session.on_reply(c.SegmentIsSealed(5, "s"))


def test_requests_may_share_an_id():
    session = open_session()
    session.on_sent(c.ReadSegment("s", 0, 10, "", 9))
    session.on_sent(c.ReadSegment("s", 10, 10, "", 9))
    session.on_reply(c.SegmentRead("s", 10, False, False, b"x", 9))
    session.on_reply(c.WrongHost(9, "s", ""))
    assert session.idle


def test_every_keep_alive_is_answered_once():
    session = open_session()
    with pytest.raises(ProtocolError):
        session.on_reply(c.KeepAlive())
    session.on_sent(c.KeepAlive())
    session.on_reply(c.KeepAlive())
    assert session.idle


def test_acknowledgements_cover_plain_appends_in_order():
    session = open_session(WRITER)
    for number in (1, 2, 5):
        session.on_sent(append(number))
    session.on_reply(c.DataAppended(WRITER, 2, INT64_MIN, 7, 10))
    session.on_reply(c.DataAppended(WRITER, 5, 2, 7, 20))
    assert session.idle


@pytest.mark.parametrize(
    "reply",
    [
        c.DataAppended(WRITER, 4, 0, 7, 10),
        c.DataAppended(WRITER, 5, 5, 7, 10),
        c.DataAppended(WRITER, 5, 1, 7, 10),
        c.DataAppended(WRITER, 5, 0, 8, 10),
        c.DataAppended(bytes(16), 5, 0, 7, 10),
        c.DataAppended(WRITER, 9, 0, 7, 10),
        c.ConditionalCheckFailed(WRITER, 1, 7),
        c.AppendSetup(1, "s", WRITER, 3),
        c.SegmentIsSealed(99, "s"),
        c.KeepAlive(),
        c.SealSegment(1, "s", ""),
    ],
)
def test_an_impossible_reply_to_an_append_is_refused(reply):
    session = open_session(WRITER)
    session.on_sent(append(1))
    session.on_sent(append(5))
    with pytest.raises(ProtocolError):
        session.on_reply(reply)


def test_conditional_appends_are_answered_one_by_one():
    session = open_session(WRITER)
    session.on_sent(c.ConditionalBlockEnd(WRITER, 1, 0, b"a", 11))
    session.on_sent(c.ConditionalBlockEnd(WRITER, 2, 1, b"b", 12))
    with pytest.raises(ProtocolError):
        session.on_reply(c.DataAppended(WRITER, 2, INT64_MIN, 12, 2))
    session.on_reply(c.ConditionalCheckFailed(WRITER, 1, 11))
    session.on_reply(c.DataAppended(WRITER, 2, INT64_MIN, 12, 2))
    assert session.idle


def test_a_refused_append_is_answered_by_its_id():
    session = open_session(WRITER)
    session.on_sent(append(1, request_id=21))
    session.on_sent(append(2, request_id=22))
    session.on_reply(c.SegmentIsSealed(21, "s", "", 1))
    session.on_reply(c.NoSuchSegment(22, "s"))
    assert session.idle


def test_a_writer_conflict_ends_all_its_appends():
    session = open_session(WRITER)
    session.on_sent(append(1))
    session.on_sent(append(2))
    session.on_reply(c.InvalidEventNumber(WRITER, 7, "", 1))
    assert session.idle


def test_a_failed_set_up_is_answered_by_its_id():
    session = open_session()
    session.on_sent(c.SetupAppend(3, WRITER, "s", ""))
    session.on_reply(c.NoSuchSegment(3, "s"))
    assert session.idle
    with pytest.raises(InvalidArgumentError):
        session.on_sent(append(1))


def test_event_numbers_of_a_writer_increase():
    session = open_session(WRITER)
    session.on_sent(append(3))
    with pytest.raises(InvalidArgumentError):
        session.on_sent(append(3))
    session.on_reply(c.DataAppended(WRITER, 3, INT64_MIN, 7, 1))
    with pytest.raises(InvalidArgumentError):
        session.on_sent(append(3))
    with pytest.raises(InvalidArgumentError):
        session.on_sent(c.AppendBlock(bytes(16), b""))
    with pytest.raises(InvalidArgumentError):
        session.on_sent(c.Hello(1, 1))
