"""The judge of tables knows what a correct table answers, also where nobody was told a version."""

import pytest

from headrace.model.tables import NO_VERSION, NOT_EXISTS
from headrace.testing.history import Operation, Outcome
from headrace.testing.linearizability import Answer, linearize
from tests.simulation.models.table_model import (
    INITIAL,
    CreateTableCall,
    DeleteTableCall,
    EntriesAnswer,
    GetEntriesCall,
    ModelTable,
    ObserveTableCall,
    RemoveKeysCall,
    TableAnswer,
    UpdateEntriesCall,
    VersionsAnswer,
    state_of,
    step,
)

TABLE = ModelTable(True, {b"a": (b"one", 10), b"u": (b"two", None)})


def told(call, answer=None, outcome=Outcome.OK, reason=""):
    return Operation("c", call, 1, 0.0, 2, 0.0, outcome, answer, reason)


def refused(call, reason):
    return told(call, outcome=Outcome.REFUSED, reason=reason)


def put(*entries):
    return UpdateEntriesCall("t", entries)


def test_an_update_gives_new_versions_and_a_table_of_its_own_life():
    after = step(TABLE, told(put((b"a", b"new", 10), (b"b", b"x", NOT_EXISTS)), VersionsAnswer((50, 60))))
    assert after.entries == {b"a": (b"new", 50), b"b": (b"x", 60), b"u": (b"two", None)}
    assert TABLE.entries[b"a"] == (b"one", 10)


@pytest.mark.parametrize(
    ("version", "reason"),
    [(11, "TableKeyVersion"), (NOT_EXISTS, "TableKeyVersion")],
)
def test_a_condition_that_fails_must_be_refused_and_one_that_holds_must_not(version, reason):
    call = put((b"a", b"new", version))
    assert step(TABLE, told(call, VersionsAnswer((50,)))) is None
    assert step(TABLE, refused(call, reason)) is TABLE
    assert step(TABLE, refused(put((b"a", b"new", 10)), reason)) is None


def test_a_missing_key_is_another_reason_than_a_wrong_version():
    call = RemoveKeysCall("t", ((b"none", 10),))
    assert step(TABLE, refused(call, "TableKeyMissing")) is TABLE
    assert step(TABLE, refused(call, "TableKeyVersion")) is None
    assert step(TABLE, told(call)) is None


def test_a_version_that_nobody_was_told_may_be_any_until_somebody_sees_it():
    call = put((b"u", b"new", 33))
    assert step(TABLE, told(call, VersionsAnswer((50,)))) is not None
    assert step(TABLE, refused(call, "TableKeyVersion")) is TABLE
    seen = step(TABLE, told(GetEntriesCall("t", (b"u",)), EntriesAnswer(((b"two", 33),))))
    assert seen.entries[b"u"] == (b"two", 33)
    assert step(seen, refused(call, "TableKeyVersion")) is None
    assert step(seen, told(GetEntriesCall("t", (b"u",)), EntriesAnswer(((b"two", 34),)))) is None


def test_an_update_whose_version_stays_the_same_is_no_update():
    assert step(TABLE, told(put((b"a", b"new", NO_VERSION)), VersionsAnswer((10,)))) is None


def test_a_look_has_to_show_what_is_there():
    def look(*entries):
        return step(TABLE, told(GetEntriesCall("t", (b"a", b"z")), EntriesAnswer(entries)))

    assert look((b"one", 10), None) is TABLE
    assert look((b"one", 11), None) is None
    assert look((b"eno", 10), None) is None
    assert look(None, None) is None
    assert look((b"one", 10), (b"", 1)) is None


def test_a_removal_may_be_of_what_an_update_of_unknown_outcome_has_put():
    """The search takes an operation that leaves the very same state for one that never changes anything."""
    table = ModelTable(True)
    update = Operation("c", put((b"a", b"x", NOT_EXISTS)), 1, 0.0)
    removal = Operation("d", RemoveKeysCall("t", ((b"a", NO_VERSION),)), 2, 0.0, 3, 0.0, Outcome.OK)
    other = Operation("d", put((b"b", b"y", NOT_EXISTS)), 4, 0.0, 5, 0.0, Outcome.OK, VersionsAnswer((100,)))
    seen = TableAnswer({b"b": (b"y", 100)})
    look = Operation("o", ObserveTableCall("t"), 6, 0.0, 7, 0.0, Outcome.OK, seen)
    shown = EntriesAnswer(((b"x", 50),))
    before = Operation("e", GetEntriesCall("t", (b"a",)), 1, 0.0, 4, 0.0, Outcome.OK, shown)
    verdict = linearize([update, before, removal, other, look], table, step)
    assert verdict.answer is Answer.LEGAL


def test_a_table_is_deleted_only_when_it_is_empty():
    call = DeleteTableCall("t")
    assert step(TABLE, told(call)) is None
    assert step(TABLE, refused(call, "TableNotEmpty")) is TABLE
    empty = step(TABLE, told(RemoveKeysCall("t", ((b"a", NO_VERSION), (b"u", NO_VERSION)))))
    assert step(empty, refused(call, "TableNotEmpty")) is None
    assert not step(empty, told(call)).exists


def test_only_what_exists_is_created_in_vain_or_asked_in_vain():
    assert step(INITIAL, told(CreateTableCall("t"))).exists
    assert step(INITIAL, refused(put((b"a", b"", NO_VERSION)), "NoSuchSegment")) is INITIAL
    assert step(TABLE, refused(CreateTableCall("t"), "SegmentExists")) is TABLE
    assert step(TABLE, told(CreateTableCall("t"))) is None


def test_an_observation_is_everything():
    seen = TableAnswer({b"a": (b"one", 10), b"u": (b"two", 7)})
    assert step(TABLE, told(ObserveTableCall("t"), seen)).entries == state_of(seen).entries
    assert step(TABLE, told(ObserveTableCall("t"), TableAnswer({b"a": (b"one", 10)}))) is None
    assert step(TABLE, told(ObserveTableCall("t"), TableAnswer(None))) is None
    assert step(INITIAL, told(ObserveTableCall("t"), TableAnswer(None))) is INITIAL
