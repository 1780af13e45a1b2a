"""Which bookies a ledger gets."""

import pytest

from headrace.errors import InvalidArgumentError
from headrace.model.endpoint import Endpoint
from headrace.wal.bookkeeper.ensemble import QUARANTINE_S, Quarantine, choose_ensemble
from headrace.wal.bookkeeper.ledger_nodes import Bookie
from headrace.wal.bookkeeper.quorums import Quorums


def bookies(**zones):
    return [Bookie(name, Endpoint(name, 3181), zone) for name, zone in zones.items()]


def chosen(writable, quarantined=(), draw=0, wanted=None):
    choice = choose_ensemble(writable, wanted or Quorums(), quarantined, draw)
    return choice and ("".join(each.id for each in choice.bookies), choice.quorums, choice.is_degraded)


def test_draws_spread_ledgers_over_the_bookies():
    four = bookies(a="", b="", c="", d="")
    assert [chosen(four, draw=draw)[0] for draw in range(5)] == ["abc", "bcd", "cda", "dab", "abc"]


def test_zones_are_spread():
    assert chosen(bookies(a="x", b="x", c="x", d="y", e="z"))[0] == "ade"
    assert chosen(bookies(a="x", b="x", c="y"))[0] == "acb"


def test_fewer_bookies_than_wanted_are_taken_down_to_the_ack_quorum():
    assert chosen(bookies(a="", b="")) == ("ab", Quorums(2, 2, 2), True)
    assert chosen(bookies(a="")) is None
    assert chosen([]) is None


def test_a_bookie_in_quarantine_is_taken_only_if_it_must_be():
    three = bookies(a="", b="", c="")
    assert chosen(three, {"b"}) == ("ac", Quorums(2, 2, 2), True)
    assert chosen(three, {"a", "b"}) == ("ca", Quorums(2, 2, 2), True)


def test_a_quarantine_ends():
    quarantine = Quarantine()
    quarantine.add("a", 100.0)
    quarantine.add("b", 110.0)
    assert quarantine.ids(100.0 + QUARANTINE_S - 1) == {"a", "b"}
    assert quarantine.ids(100.0 + QUARANTINE_S) == {"b"}


@pytest.mark.parametrize("quorums", [Quorums(2, 3, 2), Quorums(3, 2, 3), Quorums(3, 3, 0), Quorums(65, 3, 2)])
def test_quorums_that_do_not_fit_are_refused(quorums):
    with pytest.raises(InvalidArgumentError):
        quorums.check()
