"""Where a recovery ends a ledger, and when it does not end it."""

import pytest

from headrace.errors import DataCorruptionError, WalWriteError
from headrace.wal.bookkeeper.entry_format import decode_entry, encode_entry_head
from headrace.wal.bookkeeper.ledger_metadata import Ensemble, LedgerMetadata
from headrace.wal.bookkeeper.ledger_recovery import Asked, LedgerRecovery, Reply
from headrace.wal.bookkeeper.wire_format import LAST_ENTRY, Verdict

NO = Reply(Verdict.ABSENT)
DONE = Reply(Verdict.OK)


def entry(number, last_confirmed):
    payload = b"x" * 10
    head = encode_entry_head(1, number, last_confirmed, 10 * (number + 1), payload)
    return Reply(Verdict.OK, decode_entry(head + payload, 1, number))


def recovery_of(*ensembles):
    return LedgerRecovery(
        1, LedgerMetadata(write_quorum=3, ack_quorum=2, ensembles=ensembles or (Ensemble(0, tuple("abc")),))
    )


def answer(recovery, **replies):
    recovery.proceed(replies)
    return recovery.ask[:3]


def test_an_empty_ledger_ends_before_its_first_entry():
    recovery = recovery_of()
    assert recovery.ask[:3] == (Asked.READ, LAST_ENTRY, ("a", "b", "c"))
    assert answer(recovery, a=NO, b=NO, c=NO) == (Asked.READ, 0, ("a", "b", "c"))
    answer(recovery, a=NO, b=NO)
    assert recovery.end == (-1, 0, None)


def test_what_one_bookie_has_is_written_to_all_that_answer():
    recovery = recovery_of()
    assert answer(recovery, a=entry(3, 1), b=entry(1, 0)) == (Asked.READ, 2, ("a", "b"))
    assert answer(recovery, a=entry(2, 1), b=NO) == (Asked.WRITE, 2, ("a", "b"))
    assert recovery.ask.last_confirmed == 1
    assert answer(recovery, a=DONE, b=DONE) == (Asked.READ, 3, ("a", "b"))
    answer(recovery, a=NO, b=NO)
    assert recovery.end == (2, 30, None)


def test_the_length_of_what_needed_no_recovery_is_read():
    recovery = recovery_of()
    answer(recovery, a=entry(2, 1), b=entry(2, 1), c=entry(2, 1))
    assert answer(recovery, a=NO, b=NO, c=NO) == (Asked.READ, 1, ("b", "c", "a"))
    answer(recovery, a=NO, b=entry(1, 0))
    assert recovery.end == (1, 20, None)


@pytest.mark.parametrize(
    "answers",
    [
        [{"a": NO}],  # a fence of one
        [{"a": NO, "b": NO}, {"a": NO}],  # one bookie that says no
        [{"a": NO, "b": entry(0, -1)}, {"b": entry(0, -1)}, {"b": DONE}],  # one copy
    ],
)
def test_too_few_answers_decide_nothing(answers):
    recovery = recovery_of()
    for replies in answers[:-1]:
        recovery.proceed(replies)
    with pytest.raises(WalWriteError, match="nothing is lost"):
        recovery.proceed(answers[-1])
    assert recovery.end is None


def test_bookies_that_are_alive_have_a_say_beyond_the_quorum():
    """With two of two one "no" is a quorum: also that of a bookie that came back empty."""
    two = LedgerMetadata(write_quorum=2, ack_quorum=2, ensembles=(Ensemble(0, ("a", "b")),))
    for must_answer, decides in ((("b", "z"), False), ((), True)):
        recovery = LedgerRecovery(1, two, must_answer=must_answer)
        answer(recovery, a=NO, b=NO)
        if decides:
            answer(recovery, a=NO)
            assert recovery.end == (-1, 0, None)
        else:
            with pytest.raises(WalWriteError):
                recovery.proceed({"a": NO})


def test_a_confirmed_entry_that_is_gone_is_corruption():
    recovery = recovery_of()
    answer(recovery, a=entry(2, 1), b=NO, c=NO)
    answer(recovery, a=NO, b=NO, c=NO)
    with pytest.raises(DataCorruptionError):
        recovery.proceed({"a": NO, "b": NO, "c": NO})


def test_a_ledger_whose_bookies_were_replaced_is_recovered_in_the_newest_ensemble():
    recovery = recovery_of(Ensemble(0, tuple("abc")), Ensemble(5, tuple("abd")))
    assert recovery.ask.bookies == ("a", "b", "d")
    assert answer(recovery, a=NO, b=NO, d=NO)[1] == 5
    assert answer(recovery, a=NO, b=NO, d=NO) == (Asked.READ, 4, ("b", "c", "a"))


TWO = LedgerMetadata(write_quorum=2, ack_quorum=2, ensembles=(Ensemble(0, ("a", "b")),))


def test_others_take_the_places_of_lost_bookies_for_what_is_not_confirmed():
    recovery = LedgerRecovery(1, TWO, replacements=("b", "c", "d"))
    assert answer(recovery, a=entry(2, 1)) == (Asked.READ, 2, ("a",))
    assert answer(recovery, a=entry(2, 1)) == (Asked.WRITE, 2, ("a", "c"))
    assert answer(recovery, a=DONE, c=DONE) == (Asked.READ, 3, ("a",))
    assert answer(recovery, a=entry(3, 1)) == (Asked.WRITE, 3, ("c", "a"))
    # Nobody knows of the places before the end is written: the next who recovers it would believe this.
    assert recovery.ask.last_confirmed == 1
    answer(recovery, a=DONE, c=DONE)
    answer(recovery, a=NO)
    assert recovery.end == (3, 40, Ensemble(2, ("a", "c")))


def test_a_ledger_without_anything_to_write_again_stays_where_it_is():
    recovery = LedgerRecovery(1, TWO, replacements=("c",))
    answer(recovery, a=NO)
    answer(recovery, a=NO)
    assert recovery.end == (-1, 0, None)


def test_nobody_is_replaced_while_enough_bookies_are_left():
    ledger = LedgerMetadata(write_quorum=3, ack_quorum=2, ensembles=(Ensemble(0, tuple("abc")),))
    recovery = LedgerRecovery(1, ledger, replacements=("d",))
    answer(recovery, a=NO, b=entry(0, -1))
    assert answer(recovery, a=NO, b=entry(0, -1)) == (Asked.WRITE, 0, ("a", "b"))


def test_too_few_copies_decide_nothing_with_others_either():
    recovery = LedgerRecovery(1, TWO, replacements=("c",))
    answer(recovery, a=entry(0, -1))
    answer(recovery, a=entry(0, -1))
    with pytest.raises(WalWriteError, match="nothing is lost"):
        recovery.proceed({"a": DONE})


def test_a_fence_is_never_answered_by_others():
    recovery = LedgerRecovery(1, TWO, replacements=("c",))
    with pytest.raises(WalWriteError, match="could be fenced"):
        recovery.proceed({"c": NO})
