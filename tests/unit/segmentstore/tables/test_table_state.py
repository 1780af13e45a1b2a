import pytest

from headrace.errors import OffsetMismatchError, TableKeyMissingError, TableKeyVersionError
from headrace.model.tables import NO_VERSION, NOT_EXISTS, TableEntry, TableKey
from headrace.segmentstore.state.segment_state import SegmentState
from headrace.segmentstore.tables.index_note import IndexNote, encode_note
from headrace.segmentstore.tables.locations import REMOVED, UNKNOWN, location_offset, pack_location
from headrace.segmentstore.tables.state import ANY_LENGTH, UNDECIDED, Batch, Learned, TableState
from headrace.segmentstore.tables.unindexed import UnindexedEntries
from tests.simulation.worlds.memory_indexes import MemoryIndexes, MemoryRoot, StoredIndex


def state_of(unindexed, tree=None, tail=100, read_version=lambda _: None):
    """A table of 4-byte tree keys. What is in a tree is not in memory."""
    indexes = MemoryIndexes(lambda _: StoredIndex())
    indexes.is_cold = True
    index = indexes.get(SegmentState(1, "t"), 4)
    index.root = MemoryRoot(tree, encode_note(IndexNote(50, 30))) if tree else MemoryRoot()
    entries = UnindexedEntries()
    for key, location in unindexed.items():
        entries.put(key, location)
    return TableState("t", index, entries, tail, read_version)


@pytest.fixture
def state():
    """``old`` is durable with version 10; ``new`` is being put with 100, ``gone`` (20) is being removed."""
    state = state_of({b"old": pack_location(10, 1), b"gone": pack_location(20, 1)})
    state.accept(Batch(100, 130, [b"new"], [pack_location(100, 1)]))
    state.accept(Batch(130, 160, [b"gone"], [REMOVED]))
    state.check()
    return state


def violation(state, *keys):
    return state.find_violation(keys, [key.key for key in keys], ANY_LENGTH)


def judge(state, key, version, learned=None):
    keys = [TableKey(key, version)]
    return (
        type(state.find_violation(keys, [key], ANY_LENGTH, learned)),
        type(state.find_durable_violation(keys, [key], ANY_LENGTH, learned)),
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
        assert isinstance(violation(state, *keys), TableKeyMissingError)


def test_the_expected_length_is_that_of_the_accepted_log(state):
    assert state.find_violation([], [], 160) is None
    for expected in (0, 100, 130, 161):
        violation = state.find_violation([], [], expected)
        assert isinstance(violation, OffsetMismatchError)
        assert (violation.expected, violation.actual) == (expected, 160)
    assert state.find_durable_violation([], [], 100) is None  # so its caller waits
    assert state.awaited_end([], 100) == 160


def test_only_the_updates_of_the_keys_concerned_are_waited_for(state):
    assert state.awaited_end([b"new", b"old"], ANY_LENGTH) == 130
    assert state.awaited_end([b"gone", b"new"], ANY_LENGTH) == 160
    assert state.awaited_end([b"old"], ANY_LENGTH) == 100


def test_batches_reach_the_index_in_order_as_far_as_the_log_is_durable(state):
    state.settle(129)
    assert state.find_durable(b"new") == REMOVED
    state.settle(130)
    state.check()
    assert state.find_durable(b"new") != REMOVED
    assert state.find_durable(b"gone") != REMOVED
    assert state.in_flight_bytes == 30
    state.settle(10_000)
    state.check()
    assert state.find_durable(b"gone") == REMOVED


def test_a_key_updated_again_stays_accepted_when_its_first_update_is_durable(state):
    state.accept(Batch(160, 190, [b"new"], [pack_location(160, 1)]))
    state.settle(160)
    state.check()
    assert location_offset(state.find_accepted(b"new")) == 160
    assert location_offset(state.find_durable(b"new")) == 100


def test_retracting_the_last_batch_restores_what_was_accepted_before_it(state):
    last = Batch(160, 190, [b"new", b"old"], [REMOVED, REMOVED])
    state.accept(last)
    assert state.retract(last)
    state.check()
    assert state.tail == 160
    assert location_offset(state.find_accepted(b"new")) == 100
    assert state.find_accepted(b"gone") == REMOVED
    assert not state.is_touched(b"old")


def test_a_batch_others_were_built_upon_cannot_be_retracted(state):
    first = Batch(160, 190, [b"a"], [pack_location(160, 0)])
    state.accept(first)
    state.accept(Batch(190, 210, [b"b"], [pack_location(190, 0)]))
    assert not state.retract(first)


def test_a_key_twice_in_one_batch_ends_as_its_last_entry(state):
    locations = [pack_location(160, 1), pack_location(180, 2)]
    state.accept(Batch(160, 200, [b"k", b"k"], locations))
    assert location_offset(state.find_accepted(b"k")) == 180
    state.settle(200)
    state.check()
    assert location_offset(state.find_durable(b"k")) == 180


def test_entries_and_keys_are_judged_alike(state):
    assert isinstance(violation(state, TableEntry(b"old", b"", NOT_EXISTS)), TableKeyVersionError)


# ---- with an index

TREE = {b"tree": pack_location(5, 1), b"copy": pack_location(40, 1, copy=True)}


def test_what_only_the_index_knows_is_unknown_until_it_was_read():
    state = state_of({b"tail": pack_location(60, 1)}, TREE)
    keys = [b"tree", b"tail", b"none"]
    assert state.find_all_durable(keys) == [UNKNOWN, pack_location(60, 1), UNKNOWN]
    assert [state.find_durable(key) for key in keys] == state.find_all_durable(keys)
    assert judge(state, b"tree", 5) == (type(UNDECIDED), type(UNDECIDED))
    assert judge(state, b"tree", NO_VERSION) == (NONE, NONE)
    learned = Learned(state.index.root, {b"tree": TREE[b"tree"], b"none": -(1 << 63)})
    assert state.find_all_durable(keys, learned) == [TREE[b"tree"], pack_location(60, 1), REMOVED]
    assert [state.find_durable(key, learned) for key in keys] == state.find_all_durable(keys, learned)
    assert judge(state, b"tree", 5, learned) == (NONE, NONE)
    assert judge(state, b"none", 5, learned) == (TableKeyMissingError, TableKeyMissingError)


def test_what_was_read_of_a_former_root_does_not_count():
    state = state_of({}, TREE)
    learned = Learned(state.index.root, dict(TREE))
    state.index.root = MemoryRoot({b"tree": pack_location(70, 1)})
    assert state.find_durable(b"tree", learned) == UNKNOWN
    assert state.find_all_durable([b"tree"], learned) == [UNKNOWN]
    state.index.root = None
    assert state.find_all_durable([b"tree"], learned) == [UNKNOWN]


def test_a_large_table_stays_large_while_the_root_of_its_index_is_not_known():
    """Else its updates would be refused at once when a round fails."""
    state = state_of({}, TREE)
    assert state.note is not None
    state.index.root = None
    assert state.indexed_count == len(TREE)


def test_a_condition_on_a_copy_takes_its_version():
    state = state_of({}, TREE)
    learned = Learned(state.index.root, dict(TREE))
    assert judge(state, b"copy", 40, learned) == (type(UNDECIDED), type(UNDECIDED))
    assert judge(state, b"copy", NOT_EXISTS, learned) == (TableKeyVersionError, TableKeyVersionError)
    learned.versions[40] = 3
    assert judge(state, b"copy", 3, learned) == (NONE, NONE)
    assert judge(state, b"copy", 40, learned) == (TableKeyVersionError, TableKeyVersionError)
    assert judge(state_of({b"copy": TREE[b"copy"]}, read_version=lambda at: at - 30), b"copy", 10) == (
        NONE,
        NONE,
    )


def test_the_version_of_a_copy_in_flight_is_known():
    state = state_of({b"keys": pack_location(10, 1)})
    state.accept(Batch(100, 130, [b"keys"], [pack_location(100, 30, copy=True)], {100: 10}))
    assert judge(state, b"keys", 10) == (NONE, NONE)
    assert judge(state, b"keys", 100)[0] is TableKeyVersionError


def test_a_removal_hides_what_the_index_has_before_during_and_after_a_round():
    state = state_of({}, TREE)
    state.accept(Batch(100, 130, [b"tree"], [REMOVED]))
    state.settle(130)
    assert state.find_durable(b"tree") == REMOVED
    state.freeze()
    state.accept(Batch(130, 160, [b"tree"], [pack_location(130, 30)]))
    state.settle(160)
    assert state.find_durable(b"tree") == pack_location(130, 30)
    state.accept(Batch(160, 190, [b"tree"], [REMOVED]))
    state.settle(190)
    assert state.find_durable(b"tree") == REMOVED
    state.check()
    state.thaw(is_indexed=False)
    state.check()
    assert state.find_durable(b"tree") == REMOVED


def test_a_failed_round_leaves_the_newest_entries():
    state = state_of({b"keyA": pack_location(10, 10), b"keyB": pack_location(20, 10)})
    state.freeze()
    state.accept(Batch(100, 130, [b"keyA", b"keyB"], [pack_location(100, 30), REMOVED]))
    state.settle(130)
    assert state.unindexed_count == 4
    state.thaw(is_indexed=False)
    state.check()
    assert state.find_durable(b"keyA") == pack_location(100, 30)
    assert state.find_durable(b"keyB") == REMOVED
    assert (state.unindexed_count, state.live_bytes, state.key_count_max) == (2, 30, 1)


def test_the_log_is_truncated_up_to_the_end_of_the_index_at_most():
    state = state_of({b"keyA": pack_location(10, 10)})
    assert state.truncatable_end == 100  # nothing was ever indexed
    state.freeze()
    assert state.truncatable_end == 0  # the first index is being made
    state.thaw(is_indexed=False)
    state = state_of({}, TREE)
    assert state.truncatable_end == 50
    assert state.unindexed_bytes(0) == 50
    state.index.root = None
    assert state.truncatable_end == 0
