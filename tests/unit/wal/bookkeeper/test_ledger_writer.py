"""What a ledger acknowledges, when a bookie of it is given up, and when it is left."""

import pytest

from headrace.errors import DataCorruptionError
from headrace.wal.bookkeeper.ledger_writer import LedgerWriter, Stop
from headrace.wal.bookkeeper.quorums import Quorums
from headrace.wal.bookkeeper.wire_format import Verdict


def writer_of(*sizes, bookies="abc", quorums=None, behind_bytes_max=100):
    writer = LedgerWriter(1, bookies, quorums or Quorums(), behind_bytes_max=behind_bytes_max)
    for size in sizes:
        writer.add(size)
    return writer


def ok(writer, bookie, entry):
    return writer.on_answer(bookie, entry, Verdict.OK)


def test_entries_are_acknowledged_by_two_of_three_and_in_order():
    writer = writer_of(5, 7)
    assert writer.add(0) == (2, -1, 12, ("c", "a", "b"))
    assert ok(writer, "a", 1).confirmed == ok(writer, "b", 1).confirmed == ok(writer, "c", 0).confirmed == []
    assert ok(writer, "b", 0).confirmed == [0, 1]
    assert (writer.confirmed, writer.confirmed_length) == (1, 12)
    assert writer.add(1).last_confirmed == 1


def test_bytes_are_released_when_the_last_bookie_has_answered():
    writer = writer_of(5)
    assert ok(writer, "a", 0).released == ok(writer, "b", 0).released == []
    assert ok(writer, "b", 0).released == []  # twice
    assert ok(writer, "c", 0).released == [0]


def test_a_lost_bookie_releases_what_it_had_and_gets_nothing_more():
    writer = writer_of(5, 5)
    ok(writer, "a", 0)
    ok(writer, "b", 0)
    lost = writer.on_lost("c")
    assert (lost.released, lost.given_up, writer.should_roll, writer.stop_cause) == ([0], ["c"], True, None)
    assert writer.add(5).bookies == ("a", "b")
    assert ok(writer, "c", 1).released == []  # too late


@pytest.mark.parametrize("verdict", [Verdict.UNKNOWN, Verdict.ABSENT])
def test_any_error_gives_a_bookie_up(verdict):
    writer = writer_of(5)
    assert writer.on_answer("b", 0, verdict).given_up == ["b"]
    assert writer.stop_cause is None
    assert writer.on_answer("c", 0, verdict).given_up == ["c"]
    assert writer.stop_cause is Stop.TOO_FEW


def test_nothing_is_acknowledged_behind_a_fence():
    writer = writer_of(5)
    ok(writer, "a", 0)
    assert writer.on_answer("b", 0, Verdict.FENCED).confirmed == []
    assert ok(writer, "c", 0).confirmed == []
    assert (writer.stop_cause, writer.confirmed) == (Stop.FENCED, -1)


def test_a_slow_bookie_is_bounded_by_bytes_that_the_others_have():
    writer = writer_of(60, 40, 1, behind_bytes_max=100)
    for entry in (0, 1):
        for bookie in "ab":
            ok(writer, bookie, entry)
    assert writer.find_slow() == []
    for bookie in "ab":
        ok(writer, bookie, 2)
    assert writer.find_slow() == ["c"]
    ok(writer, "c", 0)
    assert writer.find_slow() == []
    assert writer.on_lost("c").released == [1, 2]
    assert writer.find_slow() == []


def test_where_all_are_slow_none_is_given_up():
    assert writer_of(1000, 1000, behind_bytes_max=100).find_slow() == []


def test_with_stripes_a_ledger_is_left_when_some_entry_could_not_be_confirmed():
    writer = writer_of(bookies="abcd", quorums=Quorums(4, 3, 2))
    assert [writer.add(1).bookies for _ in range(2)] == [("a", "b", "c"), ("b", "c", "d")]
    writer.on_lost("a")
    assert writer.stop_cause is None
    writer.on_lost("c")
    assert writer.stop_cause is Stop.TOO_FEW


def test_the_metadata_say_what_is_in_a_ledger():
    writer = writer_of(1, 1, 1, 1)
    for bookie in "ab":
        ok(writer, bookie, 0)
    writer.stop(Stop.ASKED)
    assert writer.end_at(2) == ([1, 2], [3])


@pytest.mark.parametrize("last", [-1, 2])
def test_an_end_that_cannot_be_is_corruption(last):
    writer = writer_of(1, 1)
    for bookie in "ab":
        ok(writer, bookie, 0)
    writer.stop(Stop.FENCED)
    with pytest.raises(DataCorruptionError):
        writer.end_at(last)
