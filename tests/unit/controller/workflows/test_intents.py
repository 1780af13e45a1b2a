"""Requests for a stream in any state: accepted at once, waiting in its row, joined or refused."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.controller.store.rows.stream_row import (
    NO_WANTS,
    CommitBatch,
    StreamRow,
    StreamState,
    decode_stream,
    encode_stream,
)
from headrace.controller.streams.epochs import first_epoch
from headrace.controller.workflows import intents
from headrace.controller.workflows.commit_txn import begin_commit, end_commit, go_on, may_go_on
from headrace.controller.workflows.delete_stream import begin_delete
from headrace.controller.workflows.seal_stream import begin_seal, finish_seal
from headrace.controller.workflows.truncate_stream import finish_truncate
from headrace.controller.workflows.update_stream import finish_update
from headrace.errors import (
    HeadraceError,
    NoSuchStreamError,
    StreamBusyError,
    StreamNotSealedError,
    StreamSealedError,
)
from headrace.model.policies import ScalingPolicy, StreamConfiguration

CONFIG = StreamConfiguration()
ONE, OTHER = (StreamConfiguration(tags=frozenset({tag})) for tag in "xy")
CUT, LATER = ((0, 5),), ((0, 9),)
BATCH = CommitBatch(0, (1,))


def active():
    return StreamRow(bytes(16), 1, StreamState.ACTIVE, CONFIG, first_epoch(1, 0, 1))


def committing():
    return begin(active())


def begin(row):
    return begin_commit(BATCH, row)(row)


def apply(row, *transitions):
    for transition in transitions:
        row = transition(row)
        row.check()
    return row


def test_a_request_for_a_free_stream_begins_with_one_write():
    row = active()
    assert apply(row, intents.accept_update(ONE, wait=False)).state is StreamState.UPDATING
    assert apply(row, intents.accept_truncate(CUT, None, wait=False)).state is StreamState.TRUNCATING
    sealing = apply(row, intents.accept_seal(wait=False))
    assert sealing.state is StreamState.SEALING
    assert apply(sealing, finish_seal(0), intents.accept_delete).deleting


def test_a_request_for_a_busy_stream_waits_in_its_row_and_begins_in_its_turn():
    row = apply(
        committing(),
        intents.accept_update(ONE, wait=False),
        intents.accept_truncate(CUT, None, wait=False),
        intents.accept_seal(wait=False),
        intents.accept_delete,
    )
    assert row.state is StreamState.COMMITTING_TXN
    with pytest.raises(StreamBusyError):
        intents.begin_wanted(row)
    row = apply(row, end_commit(BATCH, None), intents.begin_wanted)
    assert row.updating == ONE
    assert not intents.update_is_over(row, ONE)
    row = apply(row, finish_update(ONE), intents.begin_wanted)
    assert intents.update_is_over(row, ONE)
    assert row.truncating == CUT
    row = apply(row, finish_truncate(CUT), intents.begin_wanted)
    assert row.state is StreamState.SEALING
    row = apply(row, finish_seal(0))
    assert row.deleting
    assert row.wants == NO_WANTS


def test_the_next_batch_follows_only_while_the_row_is_as_it_was_when_it_was_chosen():
    held = committing()
    assert may_go_on(held)
    following = replace(held.commit, txn_ids=(7,))
    went_on = apply(held, go_on(BATCH, following, held))
    assert (went_on.state, went_on.commit) == (StreamState.COMMITTING_TXN, following)
    assert go_on(BATCH, following, held)(went_on) is went_on
    wanted = apply(held, intents.accept_seal(wait=False))
    assert not may_go_on(wanted)
    assert apply(wanted, go_on(BATCH, following, held)).commit is None
    ended = apply(held, end_commit(BATCH, None))
    assert go_on(BATCH, following, held)(ended) is ended


def test_an_equal_request_joins_and_a_different_one_is_refused():
    for row in (active(), committing()):
        updating = apply(row, intents.accept_update(ONE, wait=False))
        assert intents.accept_update(ONE, wait=False)(updating) is updating
        truncating = apply(row, intents.accept_truncate(CUT, None, wait=False))
        assert intents.accept_truncate(CUT, None, wait=False)(truncating) is truncating
        sealing = apply(row, intents.accept_seal(wait=False))
        assert intents.accept_seal(wait=False)(sealing) is sealing
        with pytest.raises(StreamBusyError):
            intents.accept_update(OTHER, wait=False)(updating)
        with pytest.raises(StreamBusyError):
            intents.accept_truncate(LATER, None, wait=False)(truncating)


def test_nothing_is_written_for_what_is_so_already_or_was_checked_for_another_head():
    row = committing()
    assert intents.accept_update(CONFIG, wait=True)(row) is row
    assert intents.accept_truncate(LATER, CUT, wait=True)(row) is row
    truncated = apply(active(), intents.accept_truncate(CUT, None, wait=False), finish_truncate(CUT))
    assert intents.accept_truncate(CUT, None, wait=True)(truncated) is truncated


def test_what_can_never_happen_is_refused_before_anything_is_written():
    for sealed in (
        apply(active(), begin_seal),
        apply(active(), begin_seal, finish_seal(0)),
        apply(committing(), intents.accept_seal(wait=False)),
    ):
        with pytest.raises(StreamSealedError):
            intents.accept_update(ONE, wait=False)(sealed)
        with pytest.raises(StreamSealedError):
            intents.accept_truncate(CUT, None, wait=False)(sealed)
    for row in (active(), committing(), apply(active(), intents.accept_update(ONE, wait=True))):
        with pytest.raises(StreamNotSealedError):
            intents.accept_delete(row)


def test_a_sealed_stream_is_truncated_and_stays_sealed():
    sealed = apply(active(), begin_seal, finish_seal(0))
    truncating = apply(sealed, intents.accept_sealed_truncate(CUT, None))
    assert (truncating.state, truncating.truncating) == (StreamState.SEALED, CUT)
    with pytest.raises(StreamBusyError):
        intents.accept_sealed_truncate(LATER, None)(truncating)
    truncated = apply(truncating, finish_truncate(CUT))
    assert (truncated.state, truncated.truncation) == (StreamState.SEALED, CUT)
    assert intents.accept_sealed_truncate(LATER, None)(truncated) is truncated, "checked for another head"
    assert apply(truncated, intents.accept_sealed_truncate(LATER, CUT)).truncating == LATER
    assert apply(truncating, intents.accept_delete).deleting
    with pytest.raises(NoSuchStreamError):
        intents.accept_sealed_truncate(LATER, CUT)(apply(truncated, intents.accept_delete))
    for row in (active(), committing(), apply(active(), begin_seal)):
        with pytest.raises(StreamBusyError):
            intents.accept_sealed_truncate(CUT, None)(row)


def test_a_seal_drops_changes_that_wait_and_their_callers_are_refused():
    row = apply(
        active(),
        intents.accept_update(ONE, wait=True),
        intents.accept_truncate(CUT, None, wait=True),
        begin_seal,
    )
    assert row.wants == NO_WANTS
    with pytest.raises(StreamSealedError):
        intents.update_is_over(row, ONE)
    with pytest.raises(StreamSealedError):
        intents.truncation_is_over(row, CUT)


def test_a_late_step_changes_nothing_that_came_after_what_it_was_part_of():
    updating = apply(active(), intents.accept_update(OTHER, wait=False))
    assert finish_update(ONE)(updating) is updating
    rescaling = apply(
        active(), intents.accept_update(replace(CONFIG, scaling=ScalingPolicy(segments_min=2)), wait=False)
    )
    assert finish_update(rescaling.updating)(rescaling) is rescaling
    base = active()
    merged = apply(begin(base), end_commit(BATCH, None))
    assert begin_commit(BATCH, base)(merged) is merged
    rolled = replace(apply(active(), begin_seal), epoch=replace(active().epoch, epoch=2))
    assert finish_seal(0)(rolled) is rolled


STEPS = [
    *(intents.accept_update(config, wait=wait) for config in (ONE, OTHER) for wait in (False, True)),
    *(intents.accept_truncate(CUT, None, wait=wait) for wait in (False, True)),
    *(intents.accept_truncate(LATER, CUT, wait=wait) for wait in (False, True)),
    intents.accept_sealed_truncate(CUT, None),
    intents.accept_sealed_truncate(LATER, CUT),
    *(intents.accept_seal(wait=wait) for wait in (False, True)),
    intents.accept_delete,
    intents.begin_wanted,
    begin,
    end_commit(BATCH, None),
    finish_update(ONE),
    finish_update(OTHER),
    finish_truncate(CUT),
    finish_truncate(LATER),
    begin_seal,
    finish_seal(0),
    begin_delete,
]
ENDS = [
    end_commit(BATCH, None),
    finish_update(ONE),
    finish_update(OTHER),
    finish_truncate(CUT),
    finish_truncate(LATER),
    finish_seal(0),
]


@given(st.lists(st.sampled_from(range(len(STEPS))), max_size=30))
def test_every_order_of_requests_and_steps_ends_with_nothing_left_waiting(order):
    row, promised = active(), [False, False]
    for step in order:
        try:
            row = STEPS[step](row)
        except HeadraceError:
            continue
        row.check()
        assert decode_stream(encode_stream(row)) == row
        sealing = row.wants.seal or row.state in {StreamState.SEALING, StreamState.SEALED}
        deleting = row.wants.delete or row.deleting
        assert promised <= [sealing, deleting]  # neither is ever taken back
        promised = [sealing, deleting]
    for _ in range(5):
        row = apply(row, *ENDS)
        if row.state is StreamState.ACTIVE:
            row = apply(row, intents.begin_wanted)
    assert row.wants == NO_WANTS
    assert row.truncating is None
    assert row.state in {StreamState.ACTIVE, StreamState.SEALED}
    assert [row.state is StreamState.SEALED, row.deleting] == promised
