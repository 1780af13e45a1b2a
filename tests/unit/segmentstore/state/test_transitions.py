"""What each operation may do, in which order that is checked, what it does, and what no log can hold."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from headrace.errors import (
    AttributeMismatchError,
    ContainerOfflineError,
    DataCorruptionError,
    InvalidArgumentError,
    NoSuchSegmentError,
    OffsetMismatchError,
    SegmentExistsError,
    SegmentMergedError,
    SegmentNotSealedError,
    SegmentSealedError,
    SegmentTruncatedError,
    TooManyActiveSegmentsError,
)
from headrace.limits import INT64_MAX
from headrace.model import attributes as attr
from headrace.model.attributes import ATTRIBUTE_NULL, AttributeUpdate, UpdateKind
from headrace.segmentstore.operations import catalogue as ops
from headrace.segmentstore.state import transitions
from headrace.segmentstore.state.container_state import ContainerState
from headrace.segmentstore.state.metadata_checkpoint import decode_segment_row, encode_segment_row
from headrace.segmentstore.state.segment_attributes import SegmentAttributes
from headrace.segmentstore.state.segment_state import SegmentState

KEY, OTHER, WRITER = b"k" * 16, b"o" * 16, b"w" * 16
SEQUENCE = 100
NOW_MS = 1234


def segment(number=1, length=10, **both):
    """A segment of which nothing is stored; fields of the durable side are accepted as well."""
    state = SegmentState(number, f"s/{number}", durable_length=length, accepted_length=length)
    state.attributes = SegmentAttributes(both.pop("attributes", {}))
    for name, value in both.items():
        setattr(state, name, value)
        if not name.startswith("accepted_"):
            setattr(state, f"accepted_{name}", value)
    return state


def container_of(*states):
    container = ContainerState(0, sequence=SEQUENCE)
    for state in states:
        container.insert(state)
    container.check()
    return container


def update(kind, value, expected=ATTRIBUTE_NULL, key=KEY):
    return AttributeUpdate(key, kind, value, expected)


SET = update(UpdateKind.REPLACE, 5)
REFUSED = update(UpdateKind.REPLACE_IF_EQUALS, 5, expected=4)


# ---- proposals


def propose(verb, state, updates=(), offset=-1):
    """One operation of each kind on ``state``, by its verb."""
    sealed_source = segment(2, sealed=True)
    match verb:
        case "append":
            return transitions.propose_append(state, SEQUENCE, b"abc", updates, offset)
        case "seal":
            return transitions.propose_seal(state, SEQUENCE)
        case "truncate":
            return transitions.propose_truncate(state, SEQUENCE, 5 if offset < 0 else offset)
        case "merge into":
            return transitions.propose_merge(state, sealed_source, SEQUENCE, updates)
        case "merge":
            return transitions.propose_merge(segment(3), state, SEQUENCE, ())
        case "delete":
            return transitions.propose_delete(state, SEQUENCE)
    assert verb == "update"
    return transitions.propose_update(state, SEQUENCE, updates)


VERBS = ["append", "seal", "truncate", "merge into", "merge", "delete", "update"]


def test_an_operation_takes_its_place_behind_everything_accepted():
    target = segment(7, length=10)
    target.accepted_length = 25
    assert propose("append", target, [SET], 25) == ops.Append(SEQUENCE, 7, 25, {KEY: 5}, b"abc")
    assert propose("append", target) == ops.Append(SEQUENCE, 7, 25, {}, b"abc")
    assert propose("seal", target) == ops.Seal(SEQUENCE, 7, 25)
    assert propose("truncate", target, offset=25) == ops.Truncate(SEQUENCE, 7, 25)
    assert propose("merge into", target, [SET]) == ops.Merge(SEQUENCE, 7, 2, 25, 10, {KEY: 5})
    assert propose("delete", target) == ops.Delete(SEQUENCE, 7)
    assert propose("update", target, [SET]) == ops.UpdateAttributes(SEQUENCE, 7, {KEY: 5})
    assert target.accepted_length == 25
    assert not target.attributes.accepted, "nothing has changed yet"


@pytest.mark.parametrize("verb", VERBS)
def test_nothing_is_done_to_a_segment_that_is_deleted(verb):
    with pytest.raises(NoSuchSegmentError):
        propose(verb, segment(accepted_deleted=True, sealed=True, start_offset=7), [REFUSED], 3)


@pytest.mark.parametrize("verb", VERBS)
def test_nothing_is_done_to_a_segment_that_was_merged(verb):
    state = segment(accepted_merged=True, sealed=True, start_offset=7)
    gone = NoSuchSegmentError if verb in {"append", "merge into", "delete"} else SegmentMergedError
    with pytest.raises(gone):
        propose(verb, state, [REFUSED], 3)


@pytest.mark.parametrize("verb", VERBS)
def test_an_object_that_left_memory_meanwhile_has_to_be_looked_up_again(verb):
    state = segment(sealed=verb == "merge")
    container_of(state).evict(1)
    with pytest.raises(ContainerOfflineError):
        propose(verb, state, [SET])


@pytest.mark.parametrize("verb", ["append", "seal", "merge into", "update"])
def test_a_sealed_segment_changes_no_more_and_that_is_said_before_any_condition(verb):
    with pytest.raises(SegmentSealedError):
        propose(verb, segment(accepted_sealed=True), [REFUSED], 3)


@pytest.mark.parametrize("verb", ["truncate", "merge", "delete"])
def test_a_sealed_segment_may_still_go(verb):
    propose(verb, segment(sealed=True))


def test_an_append_has_its_attributes_checked_before_its_offset():
    with pytest.raises(AttributeMismatchError):
        propose("append", segment(length=10), [REFUSED], 3)
    with pytest.raises(OffsetMismatchError) as refused:
        propose("append", segment(length=10), [SET], 3)
    assert (refused.value.expected, refused.value.actual) == (3, 10)


@pytest.mark.parametrize("offset", [0, 9, 11])
def test_a_conditional_append_wants_exactly_the_accepted_length(offset):
    with pytest.raises(OffsetMismatchError):
        propose("append", segment(length=10), offset=offset)


@pytest.mark.parametrize(("offset", "holds"), [(3, False), (4, True), (10, True), (11, False)])
def test_a_truncation_stays_between_the_start_and_the_accepted_length(offset, holds):
    state = segment(length=9, start_offset=4)
    state.accepted_length = 10
    if holds:
        assert propose("truncate", state, offset=offset).offset == offset
        return
    with pytest.raises(SegmentTruncatedError) as refused:
        propose("truncate", state, offset=offset)
    assert (refused.value.start_offset, refused.value.offset) == (4, offset)


def test_a_merge_wants_a_source_that_is_sealed_and_whole():
    with pytest.raises(SegmentNotSealedError):
        propose("merge", segment(accepted_start_offset=1))
    truncated = segment(sealed=True)
    truncated.accepted_start_offset = 1
    with pytest.raises(InvalidArgumentError, match="truncated"):
        propose("merge", truncated)


def test_a_merge_has_its_target_checked_before_its_source_and_that_before_attributes():
    gone, sealed, open_ = segment(1, accepted_deleted=True), segment(2, sealed=True), segment(3)
    with pytest.raises(SegmentSealedError):
        transitions.propose_merge(sealed, gone, SEQUENCE, [REFUSED])
    with pytest.raises(NoSuchSegmentError):
        transitions.propose_merge(open_, gone, SEQUENCE, [REFUSED])
    with pytest.raises(SegmentNotSealedError):
        transitions.propose_merge(open_, segment(4), SEQUENCE, [REFUSED])
    truncated = segment(4, sealed=True, start_offset=1)
    with pytest.raises(InvalidArgumentError):
        transitions.propose_merge(open_, truncated, SEQUENCE, [REFUSED])
    with pytest.raises(AttributeMismatchError):
        transitions.propose_merge(open_, sealed, SEQUENCE, [REFUSED])


def test_a_segment_is_never_merged_into_itself():
    state = segment(sealed=True)
    with pytest.raises(SegmentSealedError):
        transitions.propose_merge(state, state, SEQUENCE, ())
    state = segment()
    with pytest.raises(SegmentNotSealedError):
        transitions.propose_merge(state, state, SEQUENCE, ())


def test_a_name_that_is_taken_is_said_before_that_there_is_no_room():
    container = container_of(segment())
    assert transitions.propose_map(container, 101, "s/2", {KEY: 1}) == ops.MapSegment(
        101, 101, "s/2", {KEY: 1}
    )
    container.active_max = 1
    with pytest.raises(SegmentExistsError):
        transitions.propose_map(container, 101, "s/1", {})
    with pytest.raises(TooManyActiveSegmentsError):
        transitions.propose_map(container, 101, "s/2", {})


def test_a_segment_comes_back_only_if_there_is_room():
    container = container_of(segment())
    row = encode_segment_row(segment(2))
    assert transitions.propose_activate(container, 101, 2, row) == ops.ActivateSegment(101, 2, row)
    container.active_max = 1
    with pytest.raises(TooManyActiveSegmentsError):
        transitions.propose_activate(container, 101, 2, row)


def test_only_candidates_to_which_nothing_happened_are_evicted():
    used, busy, idle, other = (segment(number) for number in range(1, 5))
    candidates = [
        SimpleNamespace(state=state, last_used=state.last_used) for state in (used, busy, idle, other)
    ]
    used.last_used += 1
    evicted = transitions.propose_evict(101, candidates, lambda each: each.state is not busy)
    assert evicted == ops.EvictSegments(101, [3, 4])


# ---- acceptance and durability


def accept(container, operation):
    container.sequence = operation.sequence
    transitions.accept(container, operation)
    container.check()


def apply(container, operation):
    transitions.apply(container, operation, NOW_MS)
    container.check()


def sides(state):
    """What may differ between what was accepted and what is durable, each as a tuple."""
    return (
        (
            state.accepted_length,
            state.accepted_start_offset,
            state.accepted_sealed,
            state.attributes.accepted,
        ),
        (state.durable_length, state.start_offset, state.sealed, state.attributes.durable),
    )


EVENTS = attr.EVENT_COUNT


@pytest.mark.parametrize(
    ("operation", "result"),
    [
        (
            ops.Append(101, 1, 10, {KEY: 5, OTHER: ATTRIBUTE_NULL}, b"abc"),
            (13, 2, False, {KEY: 5, OTHER: ATTRIBUTE_NULL, EVENTS: 7}),
        ),
        (
            ops.AppendBatch(101, 1, 10, WRITER, 44, 3, b"abcd"),
            (14, 2, False, {KEY: 1, OTHER: 1, EVENTS: 10, WRITER: 44}),
        ),
        (ops.Seal(101, 1, 10), (10, 2, True, {KEY: 1, OTHER: 1, EVENTS: 7})),
        (ops.Truncate(101, 1, 6), (10, 6, False, {KEY: 1, OTHER: 1, EVENTS: 7})),
        (
            ops.UpdateAttributes(101, 1, {KEY: ATTRIBUTE_NULL}),
            (10, 2, False, {KEY: ATTRIBUTE_NULL, OTHER: 1, EVENTS: 7}),
        ),
    ],
)
def test_an_operation_changes_what_the_next_one_sees_and_only_when_durable_what_readers_see(
    operation, result
):
    state = segment(start_offset=2, attributes={KEY: 1, OTHER: 1, EVENTS: 7})
    container = container_of(state)
    before = (10, 2, False, {KEY: 1, OTHER: 1, EVENTS: 7})
    accept(container, operation)
    assert sides(state) == (result, before)
    assert (state.last_used, state.last_modified_ms) == (101, 0)
    apply(container, operation)
    assert sides(state) == (result, result)
    assert state.last_modified_ms == NOW_MS


def test_events_are_counted_up_to_what_an_attribute_holds():
    state = segment(attributes={EVENTS: INT64_MAX - 2})
    container = container_of(state)
    run = ops.AppendBatch(101, 1, 10, WRITER, 1, 3, b"abc")
    accept(container, run)
    assert state.attributes.accepted[EVENTS] == INT64_MAX
    apply(container, run)
    assert state.attributes.durable[EVENTS] == INT64_MAX


@pytest.mark.parametrize(
    "operation",
    [
        ops.Append(101, 1, 10, {}, b"abc"),
        ops.AppendBatch(101, 1, 10, WRITER, 44, 3, b"abcd"),
        ops.Seal(101, 1, 10),
        ops.Truncate(101, 1, 6),
        ops.UpdateAttributes(101, 1, {KEY: 1}),
        ops.Delete(101, 1),
        ops.Merge(101, 1, 2, 10, 10, {KEY: 5}),
    ],
)
def test_the_row_of_a_checkpoint_is_made_again_after_every_change(operation):
    states = segment(1), segment(2, sealed=True), segment(3)
    container = container_of(*states)
    untouched = encode_segment_row(states[2])
    for state in states:
        encode_segment_row(state)
    accept(container, operation)
    changed = states[: 2 if isinstance(operation, ops.Merge) else 1]
    for state in changed:
        row = decode_segment_row(encode_segment_row(state))
        assert sides(row)[0] == sides(state)[0]
        assert (row.merged, row.deleted) == (state.accepted_merged, state.accepted_deleted)
    assert states[2].checkpoint_row is untouched
    apply(container, operation)
    assert decode_segment_row(encode_segment_row(states[0])).last_modified_ms == NOW_MS


def test_a_merge_gives_the_target_its_bytes_and_takes_the_source_s_name_once_it_is_durable():
    target, source = segment(1), segment(2, length=4, sealed=True)
    container = container_of(target, source)
    merge = ops.Merge(101, 1, 2, 10, 4, {KEY: 5})
    accept(container, merge)
    assert (target.accepted_length, target.durable_length) == (14, 10)
    assert (source.accepted_merged, source.merged) == (True, False)
    assert list(container.retired) == [source]
    assert container.by_name["s/2"] is source, "readers of it go on"
    apply(container, merge)
    assert (target.durable_length, target.attributes.durable, target.last_modified_ms) == (
        14,
        {KEY: 5},
        NOW_MS,
    )
    assert source.merged
    assert "s/2" not in container.by_name
    assert container.by_id[2] is source, "until storage has let go of it"


def test_a_deletion_takes_the_name_once_it_is_durable():
    state = segment()
    container = container_of(state)
    accept(container, ops.Delete(101, 1))
    assert (state.accepted_deleted, state.deleted) == (True, False)
    assert container.by_name["s/1"] is state
    with pytest.raises(SegmentExistsError):
        transitions.propose_map(container, 102, "s/1", {})
    apply(container, ops.Delete(101, 1))
    assert state.deleted
    assert not container.by_name
    assert list(container.by_id) == [1]
    assert list(container.retired) == [state]


def test_a_new_segment_has_its_attributes_on_both_sides_and_shares_them_with_nobody():
    container = container_of()
    created = ops.MapSegment(101, 101, "s/new", {KEY: 1})
    accept(container, created)
    state = container.by_name["s/new"]
    assert (state.segment_id, state.last_used) == (101, 101)
    assert (state.attributes.accepted, state.attributes.durable) == ({KEY: 1}, {})
    apply(container, created)
    assert state.attributes.durable == {KEY: 1}
    assert state.last_modified_ms == NOW_MS
    changed = ops.UpdateAttributes(102, 101, {KEY: 2})
    accept(container, changed)
    assert state.attributes.durable == {KEY: 1}
    apply(container, changed)
    assert created.values == {KEY: 1}


def test_rows_of_storage_are_put_and_removed_first_as_accepted_then_as_durable():
    container = container_of()
    container.storage_rows, container.accepted_storage_rows = {"a": b"1"}, {"a": b"1"}
    changes = ops.StorageRows(101, {"a": None, "b": b"2", "never": None})
    accept(container, changes)
    assert (container.storage_rows, container.accepted_storage_rows) == ({"a": b"1"}, {"b": b"2"})
    apply(container, changes)
    assert container.storage_rows == {"b": b"2"}


def test_what_is_evicted_comes_back_as_it_was_stored_whole():
    state = segment(sealed=True, start_offset=3, attributes={KEY: 1})
    container = container_of(state)
    container.storage_rows, container.accepted_storage_rows = {"a": b"1", "b": b"2"}, {"a": b"1", "b": b"2"}
    row = encode_segment_row(state)
    gone = ops.EvictSegments(101, [1], [["a"]])
    accept(container, gone)
    assert state.evicted
    assert (container.by_id, container.by_name) == ({}, {})
    assert (list(container.storage_rows), list(container.accepted_storage_rows)) == (["a", "b"], ["b"])
    apply(container, gone)
    assert list(container.storage_rows) == ["b"]

    back = ops.ActivateSegment(102, 1, row, {"a": b"1"})
    accept(container, back)
    found = container.by_id[1]
    assert container.by_name["s/1"] is found is not state
    assert sides(found) == (sides(state)[1],) * 2
    assert (found.stored_length, found.stored_sealed, found.last_used) == (10, True, 102)
    assert found.checkpoint_row == row
    assert (list(container.storage_rows), sorted(container.accepted_storage_rows)) == (["b"], ["a", "b"])
    apply(container, back)
    assert container.storage_rows == {"a": b"1", "b": b"2"}


def test_an_activation_of_what_is_there_leaves_it_as_it_is():
    state = segment(attributes={KEY: 1})
    container = container_of(state)
    accept(container, ops.ActivateSegment(101, 1, encode_segment_row(segment(1, length=3))))
    assert container.by_id[1] is state
    assert state.accepted_length == 10


@pytest.mark.parametrize(
    "operation",
    [ops.CheckpointBegin(101, 0, 1), ops.CheckpointPart(101, 99, [], {}), ops.CheckpointEnd(101, 99, 1, 0)],
)
def test_a_checkpoint_changes_nothing(operation):
    state = segment()
    container = container_of(state)
    row = encode_segment_row(state)
    accept(container, operation)
    apply(container, operation)
    transitions.check_replay(container_of(segment()), operation)
    assert (state.last_used, state.last_modified_ms, state.checkpoint_row) == (0, 0, row)


# ---- what no log can hold


def contradiction(operation, *states, rows=()):
    """Return what is said about ``operation`` in a log behind ``states``; empty if nothing is."""
    container = container_of(*states)
    container.accepted_storage_rows = dict.fromkeys(rows, b"")
    try:
        transitions.check_replay(container, operation)
    except DataCorruptionError as error:
        return str(error)
    return ""


@pytest.mark.parametrize(
    "operation",
    [
        ops.Append(101, 1, 10, {}, b"abc"),
        ops.AppendBatch(101, 1, 10, WRITER, 44, 3, b"abcd"),
        ops.Seal(101, 1, 10),
        ops.Truncate(101, 1, 4),
        ops.Truncate(101, 1, 10),
        ops.UpdateAttributes(101, 1, {KEY: 1}),
        ops.Delete(101, 1),
        ops.Merge(101, 1, 2, 10, 4, {}),
        ops.MapSegment(101, 101, "s/new", {}),
        ops.StorageRows(101, {"a": None}),
        ops.EvictSegments(101, [1, 2], [["a"], []]),
    ],
)
def test_what_was_proposed_is_no_contradiction_and_nothing_is_twice_in_a_log(operation):
    states = segment(start_offset=4), segment(2, length=4, sealed=True)
    for state in states:
        state.note_all_stored()
    assert not contradiction(operation, *states, rows=["a"])
    assert "follows" in contradiction(replace(operation, sequence=SEQUENCE), *states, rows=["a"])


def test_a_segment_is_mapped_once_under_one_name_and_one_id():
    assert "maps" in contradiction(ops.MapSegment(101, 101, "s/1", {}), segment())
    assert "maps" in contradiction(ops.MapSegment(101, 1, "s/another", {}), segment())


@pytest.mark.parametrize(
    "operation",
    [
        ops.Append(101, 1, 10, {}, b"abc"),
        ops.AppendBatch(101, 1, 10, WRITER, 44, 3, b"abcd"),
        ops.Seal(101, 1, 10),
        ops.Truncate(101, 1, 4),
        ops.UpdateAttributes(101, 1, {KEY: 1}),
        ops.Delete(101, 1),
        ops.Merge(101, 1, 2, 10, 4, {}),
        ops.EvictSegments(101, [1]),
    ],
)
def test_nothing_happens_to_a_segment_behind_its_end(operation):
    source = segment(2, length=4, sealed=True)
    for end in ({"deleted": True}, {"merged": True, "sealed": True}):
        container = container_of(source)
        gone = segment(**end)
        container.by_id[1] = gone
        container.retired[gone] = None
        container.check()
        with pytest.raises(DataCorruptionError, match=r"gone|not there"):
            transitions.check_replay(container, operation)
    assert contradiction(operation, source), "nor to one that never was"


@pytest.mark.parametrize(
    ("operation", "words"),
    [
        (ops.Append(101, 1, 9, {}, b"abc"), "appends at 9, length is 10"),
        (ops.AppendBatch(101, 1, 11, WRITER, 44, 3, b"abc"), "appends at 11, length is 10"),
        (ops.Seal(101, 1, 9), "seals at 9, length is 10"),
        (ops.Truncate(101, 1, 3), "truncates at 3"),
        (ops.Truncate(101, 1, 11), "truncates at 11"),
        (ops.Merge(101, 1, 2, 9, 4, {}), "merges at 9, length is 10"),
        (ops.Merge(101, 1, 2, 10, 3, {}), "merges a source that does not fit"),
        (ops.Merge(101, 1, 3, 10, 4, {}), "merges a source that does not fit"),
        (ops.Merge(101, 1, 9, 10, 4, {}), "merges a source that does not fit"),
    ],
)
def test_offsets_in_a_log_continue_each_other(operation, words):
    states = segment(start_offset=4), segment(2, length=4, sealed=True), segment(3, length=4)
    assert words in contradiction(operation, *states)


@pytest.mark.parametrize(
    ("operation", "words"),
    [
        (ops.Append(101, 1, 10, {}, b"abc"), "appends to a sealed segment"),
        (ops.AppendBatch(101, 1, 10, WRITER, 44, 3, b"abc"), "appends to a sealed segment"),
        (ops.Seal(101, 1, 10), "seals at 10"),
        (ops.Merge(101, 1, 2, 10, 4, {}), "merges at 10"),
    ],
)
def test_no_log_adds_to_a_sealed_segment(operation, words):
    assert words in contradiction(operation, segment(sealed=True), segment(2, length=4, sealed=True))


def test_an_eviction_takes_away_only_rows_that_are_there():
    operation = ops.EvictSegments(101, [1], [["a", "b"]])
    state = segment()
    state.note_all_stored()
    assert not contradiction(operation, state, rows=["a", "b"])
    assert "removes row 'b'" in contradiction(operation, state, rows=["a"])


def test_an_activation_of_what_is_there_has_the_same_rows_of_storage():
    row = encode_segment_row(segment())
    assert not contradiction(ops.ActivateSegment(101, 1, row, {"a": b""}), segment(), rows=["a"])
    assert "other content" in contradiction(
        ops.ActivateSegment(101, 1, row, {"a": b"1"}), segment(), rows=["a"]
    )
    assert "other content" in contradiction(
        ops.ActivateSegment(101, 1, row, {"b": b""}), segment(), rows=["a"]
    )


def test_an_activation_of_what_is_gone_is_a_contradiction():
    operation = ops.ActivateSegment(101, 1, encode_segment_row(segment()))
    assert not contradiction(operation)
    container = container_of(segment())
    accept(container, ops.Delete(101, 1))
    with pytest.raises(DataCorruptionError, match="other content"):
        transitions.check_replay(container, replace(operation, sequence=102))


@pytest.mark.parametrize(
    "source",
    [
        {"accepted_merged": True, "sealed": True},
        {"accepted_deleted": True, "sealed": True},
        {"sealed": True, "start_offset": 1},
    ],
)
def test_no_log_merges_a_source_that_is_gone_or_truncated(source):
    container = ContainerState(0, sequence=100)
    for state in (segment(1), segment(2, length=4, **source)):
        container.insert(state)
    with pytest.raises(DataCorruptionError, match="gone, or truncated"):
        transitions.check_replay(container, ops.Merge(101, 1, 2, 10, 4, {}))


def test_no_log_updates_attributes_of_a_sealed_segment():
    assert contradiction(ops.UpdateAttributes(101, 1, {bytes(16): 1}), segment(sealed=True))
