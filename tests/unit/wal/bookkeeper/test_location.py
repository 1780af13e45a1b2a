"""URIs of logs over BookKeeper."""

import pytest

from headrace.errors import InvalidArgumentError
from headrace.wal.bookkeeper.location import BookKeeperLocation
from headrace.wal.bookkeeper.quorums import Quorums


@pytest.mark.parametrize(
    ("uri", "quorums", "told"),
    [
        ("bookkeeper://zk1,zk2:2182/ledgers", Quorums(3, 3, 2), "?ensemble=3&write=3&ack=2"),
        ("bookkeeper://zk1,zk2:2182", Quorums(3, 3, 2), "?ensemble=3&write=3&ack=2"),
        ("bookkeeper://zk1,zk2:2182/ledgers/?ensemble=5", Quorums(5, 3, 2), "?ensemble=5&write=3&ack=2"),
        ("bookkeeper://zk1,zk2:2182/ledgers?ensemble=2", Quorums(2, 2, 2), "?ensemble=2&write=2&ack=2"),
        ("bookkeeper://zk1,zk2:2182/ledgers?ensemble=1", Quorums(1, 1, 1), "?ensemble=1&write=1&ack=1"),
        (
            "bookkeeper://zk1,zk2:2182/ledgers?system=b&ack=3&write=4&ensemble=4",
            Quorums(4, 4, 3),
            "?ensemble=4&write=4&ack=3&system=b",
        ),
    ],
)
def test_a_uri_is_completed_and_read_again(uri, quorums, told):
    location = BookKeeperLocation.parse(uri)
    assert location.quorums == quorums
    assert str(location) == f"bookkeeper://zk1:2181,zk2:2182/ledgers{told}"
    assert BookKeeperLocation.parse(str(location)) == location


@pytest.mark.parametrize(
    ("uri", "told"),
    [
        ("bookkeeper:///ledgers", "at least one server"),
        ("bookkeeper:zk1/ledgers", "is no URI of a BookKeeper"),
        ("bookkeeper://user:pw@zk1/ledgers", "no user"),
        ("bookkeeper://zk1/ledgers?replicas=3", "no option 'replicas'; it has ensemble, write, ack, system"),
        ("bookkeeper://zk1/ledgers?ack=2&ack=2", "twice"),
        ("bookkeeper://zk1/ledgers?ack=two", "number of bookies"),
        ("bookkeeper://zk1/ledgers?write=4", "do not fit"),
        ("bookkeeper://zk1/ledgers?ensemble=3&write=3&ack=4", "do not fit"),
        ("bookkeeper://zk1/ledgers?ack=0", "do not fit"),
        ("bookkeeper://zk1/ledgers?ensemble=65", "at most 64"),
        ("bookkeeper://zk1/ledgers?system=a/b", "a name of letters"),
        ("bookkeeper://zk1/ledgers?ack", "name=value"),
    ],
)
def test_what_is_no_uri_is_refused(uri, told):
    with pytest.raises(InvalidArgumentError, match=told) as refused:
        BookKeeperLocation.parse(uri)
    assert "pw" not in str(refused.value)
