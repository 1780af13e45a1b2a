"""No order of a take-over loses an acknowledged entry, and each rule of the recovery is needed for that."""

import pytest

from headrace.wal.bookkeeper.ledger_recovery import LedgerRecovery, Reply
from headrace.wal.bookkeeper.wire_format import Verdict
from tests.unit.wal.bookkeeper.fencing_race import losses


@pytest.mark.slow
def test_no_order_of_a_take_over_loses_an_acknowledged_entry():
    assert losses() == []


@pytest.mark.slow
def test_each_of_two_rules_suffices_where_the_other_is_broken(monkeypatch):
    """Reads that fence; and believing only those that the first fence reached."""
    assert losses(fences_reads=False) == []
    believe_bookies_that_were_not_fenced(monkeypatch)
    assert losses() == []


def believe_bookies_that_were_not_fenced(monkeypatch):
    monkeypatch.setattr(LedgerRecovery, "_asked", lambda recovery, bookies: tuple(bookies))


def fence_with_one_answer(monkeypatch):
    believe_bookies_that_were_not_fenced(monkeypatch)
    monkeypatch.setattr(
        "headrace.wal.bookkeeper.ledger_recovery.is_covered", lambda bookies, write, proof, found: bool(found)
    )


def believe_one_bookie_that_says_no(monkeypatch):
    honest = LedgerRecovery.proceed

    def proceed(recovery, replies):
        if any(reply.verdict is Verdict.ABSENT for reply in replies.values()):
            replies = {name: replies.get(name, Reply(Verdict.ABSENT)) for name in recovery.ask.bookies}
        honest(recovery, replies)

    monkeypatch.setattr(LedgerRecovery, "proceed", proceed)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("plant", "client"),
    [
        (believe_bookies_that_were_not_fenced, {"fences_reads": False}),
        (fence_with_one_answer, {"fences_reads": False}),
        (believe_one_bookie_that_says_no, {}),
    ],
)
def test_a_planted_recovery_loses_some(plant, client, monkeypatch):
    plant(monkeypatch)
    assert losses(**client) != []
