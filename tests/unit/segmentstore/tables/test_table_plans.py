"""The small plans: read spans, delta walks, compaction."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import AnswerTooLargeError
from headrace.model.tables import TableEntry
from headrace.segmentstore.state.segment_state import SegmentState
from headrace.segmentstore.tables.compaction_plan import CompactionRound, is_compaction_due
from headrace.segmentstore.tables.config import UnindexedConfig
from headrace.segmentstore.tables.delta_plan import DeltaWalk
from headrace.segmentstore.tables.entry_format import (
    decode_entries,
    encode_entries,
    encode_removals,
)
from headrace.segmentstore.tables.index_note import IndexNote, encode_note
from headrace.segmentstore.tables.locations import REMOVED, pack_location
from headrace.segmentstore.tables.log import GAP_BYTES_MAX, SPAN_BYTES_MAX, plan_spans
from headrace.segmentstore.tables.log_replay import replay_entries
from headrace.segmentstore.tables.state import Batch, TableState
from headrace.segmentstore.tables.tree_keys import TreeKeys
from headrace.segmentstore.tables.unindexed import UnindexedEntries
from tests.simulation.worlds.memory_indexes import MemoryIndexes, MemoryRoot, StoredIndex


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(1, 40)), max_size=30))
def test_spans_cover_every_wanted_entry_once(steps):
    wanted, at = [], 0
    for step, length in steps:
        at += step * 700
        wanted.append((at, length * 30_000 if step % 7 == 0 else length))
        at += wanted[-1][1]
    wanted = wanted[::2] + wanted[1::2]
    spans = plan_spans(wanted)
    assert sorted(member for span in spans for member in span.members) == list(range(len(wanted)))
    for span in spans:
        inside = [wanted[member] for member in span.members]
        assert span.offset == min(offset for offset, _ in inside)
        assert span.offset + span.length == max(offset + length for offset, length in inside)
        assert span.length <= SPAN_BYTES_MAX or len(inside) == 1
        assert span.length - sum(length for _, length in inside) <= GAP_BYTES_MAX * (len(inside) - 1)


def test_the_same_entry_wanted_twice_is_read_once():
    assert [(span.offset, span.length, span.members) for span in plan_spans([(5, 9), (5, 9)])] == [
        (5, 9, [0, 1])
    ]


@pytest.mark.parametrize(
    ("log_bytes", "live_bytes", "due"),
    [(0, 0, False), (1000, 900, False), (200, 100, False), (201, 100, True), (10_000, 7600, False),
     (10_000, 7499, True), (10_000, 7500, False), (10_000, 0, True)],
)  # fmt: skip
def test_a_log_is_compacted_when_its_dead_bytes_are_many_both_in_number_and_in_share(
    log_bytes, live_bytes, due
):
    assert is_compaction_due(log_bytes, live_bytes, dead_bytes_min=100, utilization_percent_min=75) is due


@pytest.mark.parametrize(
    ("indexed", "due_at", "exceeded_at"),
    [(0, 10, 40), (1279, 10, 40), (1280, 20, 40), (1920, 30, 60), (6400, 80, 160), (1 << 40, 80, 160)],
)
def test_index_rounds_grow_with_the_table_up_to_a_bound(indexed, due_at, exceeded_at):
    bounds = UnindexedConfig(entries_max=10, bytes_max=1000)
    assert bounds.is_due(due_at, 0, indexed)
    assert bounds.is_due(0, due_at * 100, indexed)
    assert not bounds.is_due(due_at - 1, due_at * 100 - 1, indexed)
    assert bounds.is_exceeded(exceeded_at, 0, indexed)
    assert bounds.is_exceeded(0, exceeded_at * 100, indexed)
    assert not bounds.is_exceeded(exceeded_at - 1, exceeded_at * 100 - 1, indexed)


def state_of(log: bytes) -> TableState:
    """The state of a table without an index, whose keys are their own tree keys."""
    index = MemoryIndexes(lambda _: StoredIndex()).get(SegmentState(1, "t"))
    index.root = MemoryRoot()
    unindexed = UnindexedEntries()
    replay_entries(decode_entries(log, 0, "t")[0], unindexed, TreeKeys(1, 0), "t", remember=False)
    return TableState("t", index, unindexed, len(log))


def read(part: CompactionRound, log: bytes, state: TableState) -> None:
    puts = part.read(
        decode_entries(log[part.start :], part.start, "t")[0], log[part.start :], lambda key: key
    )
    part.retain(puts, [state.find_durable(put.tree_key) for put in puts], state.durable_end, 10_000)


def survivors(part: CompactionRound, state: TableState) -> list[tuple[bytes, bytes, int]]:
    found = [each.entry for piece in part.pieces for each in piece.survivors(state)]
    return [(entry.key, entry.value, entry.version) for entry in found]


def test_survivors_are_the_newest_durable_entries_no_update_under_way_supersedes():
    log = encode_entries([TableEntry(key, b"1") for key in (b"a", b"b", b"c", b"d", b"e")])[0]
    log += encode_entries([TableEntry(b"b", b"2")])[0] + encode_removals([b"c"])
    state = state_of(log)
    part = CompactionRound(0, 95)
    read(part, log, state)
    assert part.is_full
    assert part.end == 95  # the five puts, nothing after them
    state.accept(Batch(len(log), len(log) + 18, [b"d"], [REMOVED]))
    state.accept(Batch(len(log) + 18, len(log) + 37, [b"new"], [pack_location(131, 19)]))
    assert survivors(part, state) == [(b"a", b"1", 0), (b"e", b"1", 76)]


def test_an_entry_superseded_or_removed_after_it_was_read_does_not_survive():
    log = encode_entries([TableEntry(key, b"1") for key in (b"a", b"b", b"c")])[0]
    state = state_of(log)
    part = CompactionRound(0, 1000)
    read(part, log, state)
    state.unindexed.put(b"a", pack_location(60, 19))
    state.unindexed.remove(b"b", remember=True)
    assert survivors(part, state) == [(b"c", b"1", 38)]


def test_survivors_come_in_the_order_of_their_versions_even_if_they_were_copied_before():
    log = (
        encode_entries([TableEntry(b"x", b"")])[0]
        + encode_entries([TableEntry(b"y", b"")])[0]
        + encode_entries([TableEntry(b"x", b"", 0)], copies=True)[0]
    )
    state = state_of(log)
    part = CompactionRound(18, 10_000)
    read(part, log, state)
    assert survivors(part, state) == [(b"x", b"", 0), (b"y", b"", 18)]


def test_candidates_move_in_pieces_of_so_many_bytes_and_of_one_entry_at_least():
    entries = [TableEntry(b"a", bytes(10)), TableEntry(b"b", bytes(10)), TableEntry(b"c", bytes(90))]
    log = encode_entries(entries)[0]
    state = state_of(log)
    part = CompactionRound(0, 10_000)
    puts = part.read(decode_entries(log, 0, "t")[0], log, lambda key: key)
    part.retain(puts, [state.find_durable(put.tree_key) for put in puts], len(log), bytes_max=56)
    assert [piece.keys for piece in part.pieces] == [[b"a", b"b"], [b"c"]]


def test_a_piece_is_outdated_once_the_index_has_what_was_not_durable_when_it_was_made():
    log = encode_entries([TableEntry(b"a", b"1"), TableEntry(b"b", b"1")])[0]
    state = state_of(log)
    part = CompactionRound(0, 1000)
    read(part, log, state)
    [piece] = part.pieces
    state.index.root = MemoryRoot({}, encode_note(IndexNote(len(log), 0)))
    assert not piece.is_outdated(state), "all of that was known"
    state.index.root = MemoryRoot({}, encode_note(IndexNote(len(log) + 19, 0)))
    assert piece.is_outdated(state)
    piece.renew([pack_location(0, 19), pack_location(len(log), 19)], len(log) + 19)
    assert not piece.is_outdated(state)
    assert piece.keys == [b"a"]


def walk(
    log: bytes, start: int, count: int, page_bytes_max: int = 1 << 20, bytes_max: int = 1 << 20
) -> tuple[list[tuple[bytes, bytes]], int, bool]:
    delta_walk = DeltaWalk(start, len(log), count, page_bytes_max, bytes_max)
    entries, _ = decode_entries(log[start:], start, "t")
    delta_walk.read(entries, log[start:])
    delta = delta_walk.delta()
    return [(entry.key, entry.value) for entry in delta.entries], delta.last_position, delta.reached_end


def test_a_delta_holds_the_newest_entry_per_key_and_no_removed_one():
    log = encode_entries([TableEntry(b"a", b"1"), TableEntry(b"b", b"1"), TableEntry(b"a", b"2")])[0]
    log += encode_removals([b"b"])
    assert walk(log, 0, 10) == ([(b"a", b"2")], len(log), True)
    assert walk(log, 0, 2) == ([(b"a", b"1"), (b"b", b"1")], 38, False)
    assert walk(log, 38, 10) == ([(b"a", b"2")], len(log), True)
    assert walk(log, 57, 10) == ([], len(log), True)


def test_a_delta_that_ends_with_the_last_entry_has_reached_the_end():
    log = encode_entries([TableEntry(b"a", b"1")])[0]
    assert walk(log, 0, 1) == ([(b"a", b"1")], len(log), True)


def test_a_delta_is_cut_when_it_holds_enough_bytes():
    log = encode_entries([TableEntry(bytes([n]), b"x" * 100) for n in range(10)])[0]
    found, position, reached_end = walk(log, 0, 10, page_bytes_max=250)
    assert (len(found), position, reached_end) == (2, 2 * 118, False), "the third would be too much"
    found, position, reached_end = walk(log, position, 10, page_bytes_max=1)
    assert (len(found), position, reached_end) == (1, 3 * 118, False), "one is always there"
    with pytest.raises(AnswerTooLargeError) as caught:
        walk(log, position, 10, page_bytes_max=120, bytes_max=120)
    assert caught.value.size_bytes == 121


def test_a_delta_is_cut_in_front_of_a_newer_value_that_is_too_large():
    log = encode_entries([TableEntry(b"a", b"1"), TableEntry(b"a", b"2" * 100), TableEntry(b"b", b"3")])[0]
    first = 17 + 1 + 1
    assert walk(log, 0, 10, 50, 200) == ([(b"a", b"1")], first, False)
    assert walk(log, first, 10, 50, 200) == ([(b"a", b"2" * 100)], first + 118, False)
    assert walk(log, 0, 10, 121, 200) == ([(b"a", b"2" * 100)], first + 118, False)
