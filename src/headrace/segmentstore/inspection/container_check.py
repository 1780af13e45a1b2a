"""Checks every invariant of a container that can be checked without running it.

In this order: the log decodes and replays; segments keep their invariants; every durable byte is in the log
or in chunks; rows of storage fit each other, the log and the files; in a deep check, every stored
byte matches its checksum and every table decodes. Objects that no row names are judged in
:mod:`.object_check`, once for all containers.
"""

from __future__ import annotations

import traceback
from typing import Final

from headrace.errors import DataCorruptionError
from headrace.segmentstore.inspection.container_replay import ReplayedContainer, replay_container
from headrace.segmentstore.inspection.findings import CheckReport
from headrace.segmentstore.inspection.inactive_segments import open_catalogue, read_inactive
from headrace.segmentstore.inspection.segment_content import SegmentContents, read_entries
from headrace.segmentstore.inspection.storage_check import SegmentFacts, StorageCheck
from headrace.segmentstore.inspection.storage_table import load_storage_table
from headrace.segmentstore.state.segment_state import SegmentState
from headrace.storage.chunks.segment_layout import load_layout
from headrace.storage.inspect import StoredChunks
from headrace.wal.logs import FoundLog, look_steadily

_LOG_DAMAGED: Final = (
    "copy the data directory aside, then put the file back from a copy; the container does not start before"
)
_BYTES_LOST: Final = "the log was truncated too early; keep the data directory and report it"


def check_container(container_id: int, log: FoundLog, chunks: StoredChunks, *, deep: bool) -> CheckReport:
    """Check one container; ``deep`` also reads every stored byte and compares it with its checksum.

    Raises:
        SnapshotLostError: a running server truncated the log again and again meanwhile.
    """
    report = CheckReport(container_id)
    try:
        replayed, catalogue, problem = _look(container_id, log, chunks)
    except DataCorruptionError as error:
        report.damage("log", str(error), log.place, _LOG_DAMAGED)
        return report
    except OSError as error:
        what = f"the log of this container cannot be read: {error}"
        report.damage("log", what, log.place, "look at the disk and at the permissions of the files")
        return report
    report.complete = True
    report.epoch = replayed.state.epoch
    report.frames, report.operations = replayed.frames, replayed.operations
    report.segments = len(replayed.state.by_name)
    if problem:
        where = f"table of storage's rows of container {container_id}"
        report.damage("storage table", problem, where, "put back what its chunks have lost; storage needs it")
        report.rows_known = False
    _check_state(replayed, report)
    _check_coverage(replayed, report)
    inactive = _check_inactive(replayed, catalogue, report)
    archived = replayed.archived_rows
    if problem:
        return report  # nothing can be said of chunks whose rows are unknown
    StorageCheck(replayed.state, chunks, report, deep=deep, inactive=inactive, archived=archived).run()
    if deep and report.damaged:
        report.tables_left_out = True
    elif deep:
        _check_tables(report, log, chunks)
    return report


def replay_with_rows(container_id: int, log: FoundLog, chunks: StoredChunks) -> ReplayedContainer:
    """Replay, again if a running server truncated the log meanwhile; load the rows of storage as of then.

    Raises as ``replay_container``, and as ``load_storage_table``.
    """
    return replay_with_catalogue(container_id, log, chunks)[0]


def replay_with_catalogue(
    container_id: int, log: FoundLog, chunks: StoredChunks
) -> tuple[ReplayedContainer, SegmentContents]:
    """Do as :func:`replay_with_rows` does; return also the segment catalogue of the same moment."""
    replayed, catalogue, problem = _look(container_id, log, chunks)
    if problem:
        raise DataCorruptionError(problem)
    return replayed, catalogue


def _look(
    container_id: int, log: FoundLog, chunks: StoredChunks
) -> tuple[ReplayedContainer, SegmentContents, str]:
    """Return a container, its catalogue, and why its rows of storage are unknown, if they are."""

    def look() -> tuple[ReplayedContainer, SegmentContents, str]:
        replayed = replay_container(container_id, log)
        catalogue, problem = open_catalogue(replayed, chunks), ""
        try:
            load_storage_table(replayed, chunks)
        except (DataCorruptionError, OSError) as error:
            problem = str(error)
        return replayed, catalogue, problem

    return look_steadily(look)


def _check_state(replayed: ReplayedContainer, report: CheckReport) -> None:
    for segment in replayed.state.by_id.values():
        try:
            segment.check()
        except AssertionError as error:
            where = f"segment {segment.name!r} (id {segment.segment_id})"
            report.damage("invariant", f"invariant broken: {_invariant(error)}", where, _BYTES_LOST)
    if report.findings:
        return
    try:
        replayed.state.check()
    except AssertionError as error:
        where = f"container {report.container_id}"
        report.damage("invariant", f"invariant broken: {_invariant(error)}", where, _BYTES_LOST)


def _invariant(error: AssertionError) -> str:
    """Return the source of the failed assertion."""
    line = traceback.extract_tb(error.__traceback__)[-1].line or "unknown"
    return line.removeprefix("assert ")


def _check_coverage(replayed: ReplayedContainer, report: CheckReport) -> None:
    for segment in replayed.state.by_id.values():
        if not replayed.is_retired(segment):
            _check_covered(replayed, segment, report)


def _check_covered(replayed: ReplayedContainer, segment: SegmentState, report: CheckReport) -> None:
    missing = replayed.coverage.first_uncovered(segment)
    if missing is None and report.rows_known:
        missing = _first_unstored(replayed, segment)
    if missing is not None:
        report.damage(
            "coverage",
            f"durable bytes from offset {missing} on are neither in the log nor in chunks",
            f"segment {segment.name!r} (id {segment.segment_id})",
            _BYTES_LOST,
            f", durable to {segment.durable_length}",
        )


def _first_unstored(replayed: ReplayedContainer, segment: SegmentState) -> int | None:
    """Return the first offset that storage should have, and has not."""
    try:
        layout = load_layout(segment.storage_name, replayed.storage_row)
    except DataCorruptionError:
        return None  # reported with the rows
    stored = 0 if layout is None else layout.length
    return stored if stored < segment.stored_length else None


def _check_inactive(
    replayed: ReplayedContainer, catalogue: SegmentContents, report: CheckReport
) -> dict[int, SegmentFacts] | None:
    """Every row of the segment catalogue must decode, and agree with storage."""
    inactive: dict[int, SegmentFacts] = {}
    try:
        for segment in read_inactive(replayed, catalogue):
            inactive[segment.segment_id] = SegmentFacts(
                segment.start_offset, segment.durable_length, segment.sealed, is_table=segment.is_table
            )
            _check_inactive_segment(replayed, segment, report)
    except (DataCorruptionError, OSError) as error:
        where = f"segment catalogue of container {report.container_id}"
        advice = "put back what its chunks have lost; inactive segments need it"
        report.damage("catalogue", str(error), where, advice)
        report.rows_known = False
        return None
    report.inactive_segments = len(inactive)
    return inactive


def _check_inactive_segment(replayed: ReplayedContainer, segment: SegmentState, report: CheckReport) -> None:
    """An inactive segment is wholly stored, and no active segment has its name."""
    where = f"inactive segment {segment.name!r} (id {segment.segment_id})"
    if segment.name in replayed.state.by_name:
        what = "its name is that of an active segment"
        report.damage("inactive name", what, where, "keep a copy of the data directory and report it")
    if not report.rows_known:
        return
    try:
        layout = load_layout(segment.storage_name, replayed.storage_row)
    except DataCorruptionError:
        return  # reported with the rows
    stored = 0 if layout is None else layout.length
    if stored != segment.durable_length:
        what = f"it has {segment.durable_length} bytes, storage holds {stored}"
        report.damage("inactive length", what, where, _BYTES_LOST)


def _check_tables(report: CheckReport, log: FoundLog, chunks: StoredChunks) -> None:
    """Every table must decode from its first byte to its last.

    Replays again: the stored bytes were read since the log was, and a running server may have truncated it
    and compacted the tables meanwhile.
    """

    def look() -> tuple[list[SegmentState], SegmentContents]:
        replayed = replay_container(report.container_id, log)
        load_storage_table(replayed, chunks)
        tables = [state for state in replayed.state.by_name.values() if state.is_table]
        return tables, SegmentContents(replayed, tables, chunks)

    try:
        tables, contents = look_steadily(look)
    except (DataCorruptionError, OSError) as error:
        where = f"log of container {report.container_id}"
        report.damage("log", str(error), where, _LOG_DAMAGED)
        return
    for table in tables:
        try:
            report.table_entries += sum(1 for _ in read_entries(contents, table))
        except (DataCorruptionError, OSError) as error:
            where = f"table {table.name!r} (id {table.segment_id})"
            report.damage("table", str(error), where, "keep a copy of the data directory and report it")
