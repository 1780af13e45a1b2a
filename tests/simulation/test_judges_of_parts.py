"""The judges of `read_index` and `tables` can convict, too: some of these bugs we had."""

import asyncio
import logging

import pytest

from headrace.errors import EventTooLargeError, StorageReadError
from headrace.segmentstore.readindex import read_index
from headrace.segmentstore.readindex.cache.cache import BlockCache
from headrace.segmentstore.readindex.read_index import ContainerReadIndex
from headrace.segmentstore.readindex.storage_fetches import StorageFetches
from headrace.segmentstore.readindex.tail_waiters import TailWaiters
from headrace.segmentstore.tables import open_tables
from headrace.segmentstore.tables.compaction import TableCompactor
from headrace.segmentstore.tables.compaction_plan import CompactionPiece
from headrace.segmentstore.tables.open_table import OpenTable
from headrace.segmentstore.tables.open_tables import OpenTables
from headrace.segmentstore.tables.state import TableState
from headrace.segmentstore.tables.tables import ContainerTables
from tests.effort import sampled
from tests.simulation.run_seeds import run_one
from tests.simulation.worlds.queued_segments import QueuedSegments


@pytest.fixture(autouse=True)
def _errors_only():
    logging.getLogger("headrace").setLevel(logging.CRITICAL)
    yield
    logging.getLogger("headrace").setLevel(logging.NOTSET)


# ---- read index


def look_ahead_before_the_bytes_are_lent(monkeypatch):
    """We had it: to look ahead takes memory, maybe that of the bytes which are about to be answered."""
    read, hold = ContainerReadIndex.read_nowait, BlockCache.lend_views
    asking = []

    def read_nowait(reads, segment, offset, length_max):
        asking.append((reads, segment, offset))
        try:
            return read(reads, segment, offset, length_max)
        finally:
            asking.pop()

    def hold_late(cache, pieces, blocks, size):
        reads, segment, offset = asking[-1]
        index = reads._indexes[segment]
        if index in reads._readers and index.is_history(blocks[0]):
            reads._read_ahead(index, offset, size)
        return hold(cache, pieces, blocks, size)

    monkeypatch.setattr(ContainerReadIndex, "read_nowait", read_nowait)
    monkeypatch.setattr(BlockCache, "lend_views", hold_late)


def answer_views_that_are_not_lent(monkeypatch):
    monkeypatch.setattr(BlockCache, "lend_views", lambda cache, pieces, blocks, size: None)


def keep_what_was_lent_for_a_look(monkeypatch):
    def is_in_memory(reads, index, offset):
        loan = reads._cache.lend(read_index.STORAGE_READ_ALIGNMENT)
        if loan is None:
            return False
        block, memory = loan
        begin, end, _ = reads._storage.read_at_once(index.state.storage_name, offset, 1, memory)
        if begin < end:
            reads._cache.release_lent(block)
        return begin < end

    monkeypatch.setattr(ContainerReadIndex, "_is_in_memory", is_in_memory)


def forget_reads_that_wait_at_a_deleted_segment(monkeypatch):
    monkeypatch.setattr(TailWaiters, "fail_all", lambda waiters, error: None)


def cache_what_arrives_for_an_evicted_segment(monkeypatch):
    monkeypatch.setattr(StorageFetches, "forget", lambda fetches, index, error: None)


# ---- tables


def open_a_table_beside_the_appends_of_its_predecessor(monkeypatch):
    """We had it: the next caller to open the table did not wait if the first one had been cancelled."""
    honest = OpenTables._open

    async def open_it(tables, name):
        try:
            return await honest(tables, name)
        except asyncio.CancelledError:
            tables._retired.pop(name, None)
            raise

    monkeypatch.setattr(OpenTables, "_open", open_it)


def raise_the_error_of_a_predecessor(monkeypatch):
    """We had it: a caller that waited for a table of that name got the error of the one before."""

    class NeverRaisedError(Exception):
        pass

    monkeypatch.setattr(open_tables, "HeadraceError", NeverRaisedError)


def take_in_only_what_a_caller_waits_for(monkeypatch):
    """We had it: an update whose caller gave up never reached the index, and its table was never idle."""

    def is_idle(table):
        return table.is_drained and (table.retired or not table.state.in_flight_count)

    monkeypatch.setattr(OpenTable, "is_idle", property(is_idle))


def wait_for_what_a_retired_table_believes(monkeypatch):
    """We had it: updates in flight in a void state never complete."""

    def is_idle(table):
        if not table._appending and table.state.in_flight_count:
            table.settle()
        return table.is_drained and not table.state.in_flight_count

    monkeypatch.setattr(OpenTable, "is_idle", property(is_idle))


def confirm_what_is_not_durable(monkeypatch):
    """We had it: a condition on the length was confirmed, without a write, before that length was durable."""

    async def confirm(tables, table, expected_length):
        return True

    monkeypatch.setattr(ContainerTables, "_confirm", confirm)


def refuse_by_what_is_not_durable(monkeypatch):
    monkeypatch.setattr(TableState, "find_durable_violation", TableState.find_violation)


def judge_conditions_by_what_is_durable(monkeypatch):
    monkeypatch.setattr(TableState, "find_accepted", TableState.find_durable)


def refuse_a_deleted_table_at_once(monkeypatch):
    """We had it, in the caller: a refusal has to wait until its reason is durable."""

    async def flush(access):
        pass

    monkeypatch.setattr(QueuedSegments, "flush", flush)


def compact_only_what_the_log_takes_in_one_piece(monkeypatch):
    """We had it: a round whose copies are too large for the log was made again and again, whole."""
    honest = TableCompactor._run_round

    async def run_round(compactor, table):
        try:
            return await honest(compactor, table)
        except EventTooLargeError as error:
            raise StorageReadError("put off") from error

    monkeypatch.setattr(TableCompactor, "_run_round", run_round)


def move_what_was_replaced_meanwhile(monkeypatch):
    def survivors(piece, state):
        return [each for each in piece.candidates if not state.is_touched(each.tree_key)]

    monkeypatch.setattr(CompactionPiece, "survivors", survivors)


def truncate_what_the_index_lacks(monkeypatch):
    """A key whose removal is truncated before the index has it is back when the table is opened again."""
    monkeypatch.setattr(TableState, "truncatable_end", property(lambda state: state.durable_end))


def forget_removals(monkeypatch):
    monkeypatch.setattr(TableState, "remembers_removals", False)


#: Each with the scenario that has to find it, in how many seeds, and the last seed that did: it goes first.
BUGS = [
    (look_ahead_before_the_bytes_are_lent, "read_index", 300, 26),
    (answer_views_that_are_not_lent, "read_index", 40, 0),
    (keep_what_was_lent_for_a_look, "read_index", 12, 0),
    (forget_reads_that_wait_at_a_deleted_segment, "read_index", 12, 4),
    (cache_what_arrives_for_an_evicted_segment, "read_index", 400, 164),
    (open_a_table_beside_the_appends_of_its_predecessor, "tables", 1500, 36),
    (raise_the_error_of_a_predecessor, "tables", 600, 24),
    (take_in_only_what_a_caller_waits_for, "tables", 400, 91),
    (wait_for_what_a_retired_table_believes, "tables", 2500, 1908),
    (confirm_what_is_not_durable, "tables", 100, 1),
    (refuse_by_what_is_not_durable, "tables", 12, 0),
    (judge_conditions_by_what_is_durable, "tables", 24, 1),
    (refuse_a_deleted_table_at_once, "tables", 40, 15),
    (compact_only_what_the_log_takes_in_one_piece, "tables", 500, 206),
    (move_what_was_replaced_meanwhile, "tables", 2000, 1060),
    (truncate_what_the_index_lacks, "tables", 400, 36),
    (forget_removals, "tables", 400, 2),
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("plant", "scenario", "seeds", "first"), sampled(BUGS), ids=lambda value: getattr(value, "__name__", "")
)
def test_a_planted_bug_is_found(plant, scenario, seeds, first, monkeypatch):
    plant(monkeypatch)
    for seed in (first, *range(seeds)):
        try:
            run_one(scenario, seed)
        except AssertionError:
            return
    pytest.fail(f"{seeds} seeds have not found it")
