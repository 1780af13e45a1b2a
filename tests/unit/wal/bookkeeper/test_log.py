"""A log as a row of ledgers: who may change it, which frame is in which of them, what a truncation frees."""

import pytest

from headrace.errors import DataCorruptionError, FencedOutError, PreconditionError
from headrace.wal.bookkeeper.ledger_writer import LedgerWriter
from headrace.wal.bookkeeper.log_changes import (
    add_ledger,
    check_owner,
    find_freed,
    forget_ledgers,
    next_address,
    take_log,
    truncate_log,
)
from headrace.wal.bookkeeper.log_node import LEDGERS_MAX, LedgerEntry, LogNode
from headrace.wal.bookkeeper.log_plan import LogPlan, Phase
from headrace.wal.bookkeeper.quorums import Quorums
from headrace.wal.bookkeeper.wire_format import Verdict


def ledger(number):
    return LedgerWriter(number, "abc", Quorums(), behind_bytes_max=1000)


def writing(*frames):
    plan = LogPlan(1, ledger_bytes_max=100)
    plan.begin_ledger(ledger(1))
    for frame in frames:
        plan.append(frame, 10)
    return plan


def answer(plan, entry, bookies="ab", writer=None):
    writer = writer or plan.writer
    found = [plan.on_progress(writer, writer.on_answer(bookie, entry, Verdict.OK)) for bookie in bookies]
    return [placed.frame for outcome in found for placed in outcome.acknowledged], [
        placed.frame for outcome in found for placed in outcome.released
    ]


def frames(placed):
    return [each.frame for each in placed]


def test_frames_wait_for_the_first_ledger():
    plan = LogPlan(7, ledger_bytes_max=100)
    assert not plan.wants_ledger
    placed, outcome = plan.append("x", 10)
    assert (placed.address, outcome.send, plan.wants_ledger, plan.first_unanswered) == (7, [], True, 7)
    sent = plan.begin_ledger(ledger(1)).send
    assert [(placed.frame, add.entry) for placed, add in sent] == [("x", 0)]


def test_a_frame_is_released_when_no_connection_uses_it():
    plan = writing("x", "y")
    assert answer(plan, 0) == (["x"], [])
    assert answer(plan, 0, "c") == ([], ["x"])
    assert answer(plan, 1, "abc") == (["y"], ["y"])


def test_what_a_closed_ledger_does_not_hold_begins_the_next_one():
    plan = writing("a", "b", "c")
    old = plan.writer
    answer(plan, 0)
    plan.begin_roll()
    assert answer(plan, 1, writer=old) == ([], [])  # too late
    assert frames(plan.end_ledger(1).acknowledged) == ["b"]
    plan.append("d", 10)
    assert plan.first_unanswered == 3
    sent = plan.begin_ledger(ledger(2)).send
    assert [(placed.frame, placed.address, add.entry) for placed, add in sent] == [("c", 3, 0), ("d", 4, 1)]
    assert answer(plan, 0, "abc") == (["c"], [])  # the first ledger's connections still have it
    assert plan.on_progress(old, old.on_lost("c")).released  # a, whose third copy was not answered
    for bookie in "ab":
        plan.on_progress(old, old.on_lost(bookie))
    assert answer(plan, 1, "abc") == (["d"], ["d"])


def test_a_full_ledger_is_left():
    plan = writing(*"123456789")
    assert not plan.wants_roll
    plan.append("x", 10)
    assert plan.wants_roll


def test_when_the_log_is_lost_every_frame_is_answered_in_order():
    plan = writing("a", "b")
    plan.begin_roll()
    plan.append("c", 10)
    assert frames(plan.fail().acknowledged) == ["a", "b", "c"]
    assert (plan.phase, plan.in_flight) == (Phase.FAILED, 0)


# ---- the node


def test_an_owner_is_known_by_its_epoch():
    node = take_log(LogNode(5))
    assert check_owner(node, 1) is node
    for other in (take_log(node), None):
        with pytest.raises(FencedOutError):
            check_owner(other, 1)


def test_addresses_go_on_from_ledger_to_ledger():
    node = take_log(LogNode(5))
    assert next_address(node, None) == 1
    node = add_ledger(node, 70, 1)
    assert [next_address(node, last) for last in (-1, 9)] == [1, 11]
    with pytest.raises(DataCorruptionError):
        next_address(truncate_log(node, 5, 11), 2)


def test_truncation_frees_whole_ledgers_and_never_the_last_one():
    node = LogNode(5, 1, 1, tuple(LedgerEntry(70 + n, first, 1) for n, first in enumerate((1, 11, 11, 21))))
    assert [find_freed(truncate_log(node, address, 31)) for address in (0, 10, 11, 21, 99)] == [
        [],
        [],
        [70, 71],
        [70, 71, 72],
        [70, 71, 72],
    ]
    cut = truncate_log(node, 99, 31)
    assert (cut.truncation_address, truncate_log(cut, 3, 31)) == (31, cut)
    assert [each.ledger for each in forget_ledgers(cut, find_freed(cut)).ledgers] == [73]


def test_a_log_has_so_many_ledgers_at_most():
    full = LogNode(5, 1, 1, tuple(LedgerEntry(number, 1, 1) for number in range(LEDGERS_MAX)))
    with pytest.raises(PreconditionError):
        add_ledger(full, LEDGERS_MAX, 1)
