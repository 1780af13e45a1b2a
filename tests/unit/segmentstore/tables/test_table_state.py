import pytest

from headrace.errors import OffsetMismatchError, TableKeyMissingError, TableKeyVersionError
from headrace.model.tables import NO_VERSION, NOT_EXISTS, TableEntry, TableKey
from headrace.segmentstore.tables.table_index import REMOVED, TableIndex, location_version, pack_location
from headrace.segmentstore.tables.table_state import ANY_LENGTH, Batch, TableState


@pytest.fixture
def state():
    """``old`` is durable with version 10; ``new`` is being put with 100, ``gone`` (20) is being removed."""
    index = TableIndex()
    index.put(b"old", pack_location(10, 10, 1))
    index.put(b"gone", pack_location(20, 20, 1))
    state = TableState("t", index, 100)
    state.accept(Batch(100, 130, [b"new"], [pack_location(100, 100, 1)]))
    state.accept(Batch(130, 160, [b"gone"], [REMOVED]))
    state.check()
    return state


def judge(state, key, version):
    return (
        type(state.find_violation([TableKey(key, version)], ANY_LENGTH)),
        type(state.find_durable_violation([TableKey(key, version)], ANY_LENGTH)),
    )


NONE = type(None)


@pytest.mark.parametrize(
    ("key", "version", "accepted", "durable"),
    [
        (b"old", NO_VERSION, NONE, NONE),
        (b"old", 10, NONE, NONE),
        (b"old", 11, TableKeyVersionError, TableKeyVersionError),
        (b"old", NOT_EXISTS, TableKeyVersionError, TableKeyVersionError),
        (b"none", NO_VERSION, NONE, NONE),
        (b"none", NOT_EXISTS, NONE, NONE),
        (b"none", 10, TableKeyMissingError, TableKeyMissingError),
        (b"new", 100, NONE, TableKeyMissingError),
        (b"new", NOT_EXISTS, TableKeyVersionError, NONE),
        (b"gone", 20, TableKeyMissingError, NONE),
        (b"gone", NOT_EXISTS, NONE, TableKeyVersionError),
    ],
)
def test_conditions_are_judged_by_the_accepted_and_by_the_durable_state(
    state, key, version, accepted, durable
):
    assert judge(state, key, version) == (accepted, durable)


def test_a_missing_key_comes_before_a_wrong_version_wherever_it_stands(state):
    wrong, missing = TableKey(b"old", 11), TableKey(b"none", 5)
    for keys in ([wrong, missing], [missing, wrong]):
        assert isinstance(state.find_violation(keys, ANY_LENGTH), TableKeyMissingError)


def test_the_expected_length_is_that_of_the_accepted_log(state):
    assert state.find_violation([], 160) is None
    for expected in (0, 100, 130, 161):
        violation = state.find_violation([], expected)
        assert isinstance(violation, OffsetMismatchError)
        assert (violation.expected, violation.actual) == (expected, 160)
    assert state.find_durable_violation([], 100) is None  # so its caller waits
    assert state.awaited_end([], 100) == 160


def test_only_the_updates_of_the_keys_concerned_are_waited_for(state):
    assert state.awaited_end([TableKey(b"new"), TableKey(b"old")], ANY_LENGTH) == 130
    assert state.awaited_end([TableKey(b"gone"), TableKey(b"new")], ANY_LENGTH) == 160
    assert state.awaited_end([TableKey(b"old")], ANY_LENGTH) == 100


def test_batches_reach_the_index_in_order_as_far_as_the_log_is_durable(state):
    state.settle(129)
    assert state.index.find(b"new") == REMOVED
    state.settle(130)
    state.check()
    assert state.index.find(b"new") != REMOVED
    assert state.index.find(b"gone") != REMOVED
    assert state.in_flight_bytes == 30
    state.settle(10_000)
    state.check()
    assert state.index.find(b"gone") == REMOVED


def test_a_key_updated_again_stays_accepted_when_its_first_update_is_durable(state):
    state.accept(Batch(160, 190, [b"new"], [pack_location(160, 160, 1)]))
    state.settle(160)
    state.check()
    assert location_version(state.find_accepted(b"new")) == 160
    assert location_version(state.index.find(b"new")) == 100


def test_retracting_the_last_batch_restores_what_was_accepted_before_it(state):
    last = Batch(160, 190, [b"new", b"old"], [REMOVED, REMOVED])
    state.accept(last)
    assert state.retract(last)
    state.check()
    assert state.tail == 160
    assert location_version(state.find_accepted(b"new")) == 100
    assert state.find_accepted(b"gone") == REMOVED
    assert not state.is_touched(b"old")


def test_a_batch_others_were_built_upon_cannot_be_retracted(state):
    first = Batch(160, 190, [b"a"], [pack_location(160, 160, 0)])
    state.accept(first)
    state.accept(Batch(190, 210, [b"b"], [pack_location(190, 190, 0)]))
    assert not state.retract(first)


def test_a_key_twice_in_one_batch_ends_as_its_last_entry(state):
    locations = [pack_location(160, 160, 1), pack_location(180, 180, 2)]
    state.accept(Batch(160, 200, [b"k", b"k"], locations))
    assert location_version(state.find_accepted(b"k")) == 180
    state.settle(200)
    state.check()
    assert location_version(state.index.find(b"k")) == 180


def test_entries_and_keys_are_judged_alike(state):
    assert isinstance(
        state.find_violation([TableEntry(b"old", b"", NOT_EXISTS)], ANY_LENGTH), TableKeyVersionError
    )
