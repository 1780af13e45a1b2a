"""What ``headrace inspect container`` and ``segment`` print: what the next owner would recover."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from typing import Any

from headrace.cli.inspect.attribute_names import attribute_words, kind_of
from headrace.cli.inspect.container_failures import ContainerFailures
from headrace.cli.inspect.data import InspectedData, open_data, time_text
from headrace.cli.inspect.segment_view import SegmentView, status_of, view_segment
from headrace.cli.output import print_columns, print_fields, print_json, print_line, printable, progress
from headrace.cli.streamed_columns import StreamedColumns
from headrace.errors import DataCorruptionError, NoSuchSegmentError
from headrace.segmentstore.inspection.container_check import replay_with_catalogue, replay_with_rows
from headrace.segmentstore.inspection.container_replay import ReplayedContainer, replay_container
from headrace.segmentstore.inspection.inactive_segments import open_catalogue, read_inactive
from headrace.segmentstore.inspection.segment_content import SegmentContents
from headrace.segmentstore.inspection.storage_table import load_storage_table
from headrace.segmentstore.state.segment_state import SegmentState
from headrace.wal.logs import look_steadily

_ROW_KINDS = {"i": "incarnation", "s": "segment", "c": "chunk", "k": "checksums", "g": "garbage"}


# ------------------------------------------------------------------------------------------ container


def inspect_container(*, data_dir: str, container: int | None, with_inactive: bool, as_json: bool) -> None:
    """Epoch, sequence, segments, checkpoints and storage rows of each container."""
    data = open_data(data_dir)
    failures = ContainerFailures()
    for container_id in data.with_logs(container, json=as_json):
        with failures.collected(container_id, json=as_json) as document:
            replayed, catalogue = _replay(data, container_id, inactive=with_inactive)
            if not as_json:
                _print_container(replayed)
                if catalogue is not None:
                    _print_inactive(replayed, catalogue)
                continue
            document.update(_container_document(replayed))
            if catalogue is not None:
                inactive = read_inactive(replayed, catalogue)
                document["inactive_segments"] = [_segment_row(replayed, state) for state in inactive]
    failures.raise_worst()


def _print_inactive(replayed: ReplayedContainer, catalogue: SegmentContents) -> None:
    table = StreamedColumns(("ID", "START", "LENGTH", "STATUS", "KIND", "INACTIVE SEGMENT"))
    for state in read_inactive(replayed, catalogue):
        status, kind = status_of(replayed, state), kind_of(state)
        table.add(state.segment_id, state.start_offset, state.durable_length, status, kind, state.name)
    table.close()
    print_line("")


def _replay(
    data: InspectedData, container_id: int, *, inactive: bool
) -> tuple[ReplayedContainer, SegmentContents | None]:
    """Return also what the segment catalogue is read from, if inactive segments are to be shown."""
    log = data.log(container_id)
    if inactive:
        return replay_with_catalogue(container_id, log, data.chunks)
    return replay_with_rows(container_id, log, data.chunks), None


def _segments(replayed: ReplayedContainer) -> list[SegmentState]:
    found = [state for state in replayed.state.by_id.values() if not replayed.has_left_storage(state)]
    return sorted(found, key=lambda state: (state.name, state.segment_id))


def _summary(replayed: ReplayedContainer) -> dict[str, Any]:
    segments = _segments(replayed)
    live = [state for state in segments if not replayed.is_retired(state)]
    rows = (*replayed.state.storage_rows, *replayed.archived_rows)
    return {
        "container": replayed.state.container_id,
        "container_epoch": replayed.state.epoch,
        "sequence": replayed.state.sequence,
        "first_address": replayed.log.first_address,
        "next_address": replayed.log.next_address,
        "frames": replayed.frames,
        "operations": replayed.operations,
        "operations_after_checkpoint": replayed.operations_after_checkpoint,
        "segments": len(live),
        "segments_by_status": dict(Counter(status_of(replayed, state) for state in segments)),
        "durable_bytes": sum(state.durable_length - state.start_offset for state in live),
        "unstored_bytes": sum(
            item.end - item.offset for state in live for item in replayed.coverage.unstored(state)
        ),
        "storage_rows": dict(Counter(_ROW_KINDS.get(key.partition("/")[0], "other") for key in rows)),
    }


def _segment_row(replayed: ReplayedContainer, state: SegmentState) -> dict[str, Any]:
    unstored = [] if replayed.is_retired(state) else replayed.coverage.unstored(state)
    return {
        "segment": state.name,
        "segment_id": state.segment_id,
        "status": status_of(replayed, state),
        "kind": kind_of(state),
        "start_offset": state.start_offset,
        "stored_length": state.stored_length,
        "durable_length": state.durable_length,
        "unstored_bytes": sum(item.end - item.offset for item in unstored),
    }


def _container_document(replayed: ReplayedContainer) -> dict[str, Any]:
    return _summary(replayed) | {
        "checkpoints": [asdict(checkpoint) for checkpoint in replayed.checkpoints],
        "active_segments": [_segment_row(replayed, state) for state in _segments(replayed)],
    }


def _print_container(replayed: ReplayedContainer) -> None:
    summary = _summary(replayed)
    print_fields([(name.replace("_", " "), _counts(value)) for name, value in summary.items()])
    if replayed.checkpoints:
        print_line("")
        table = StreamedColumns(("CHECKPOINT", "END", "EPOCH", "ADDRESS", "SEGMENTS", "STORAGE ROWS"))
        for found in replayed.checkpoints:
            table.add(
                found.begin_sequence,
                found.end_sequence,
                found.container_epoch,
                found.address,
                found.segments,
                found.storage_rows,
            )
        table.close()
    print_line("")
    table = StreamedColumns(("ID", "START", "STORED", "DURABLE", "UNSTORED", "STATUS", "KIND", "SEGMENT"))
    for state in _segments(replayed):
        row = _segment_row(replayed, state)
        table.add(
            state.segment_id,
            state.start_offset,
            state.stored_length,
            state.durable_length,
            row["unstored_bytes"],
            row["status"],
            row["kind"],
            state.name,
        )
    table.close()
    print_line("")


def _counts(value: object) -> object:
    if isinstance(value, dict):
        return ", ".join(f"{count} {name}" for name, count in value.items()) or None
    return value


# ------------------------------------------------------------------------------------------ segment


def inspect_segment(*, name: str, data_dir: str, deep: bool, as_json: bool) -> None:
    """State, attributes and chunks of one segment, and what only the log holds of it."""
    data = open_data(data_dir)
    looks = _look_at_segment(data, name, deep=deep)
    problems = [problem for _, view in looks for problem in _problems_of(view)]
    if problems and data.may_change:
        progress("retrying: a running server changes files while they are read")
        looks = _look_at_segment(data, name, deep=deep)
        problems = [problem for _, view in looks for problem in _problems_of(view) if problem in problems]
    container_id = data.container_of(name)
    for replayed, view in looks:
        if as_json:
            print_json(_segment_document(container_id, replayed, view))
        else:
            _print_segment(container_id, replayed, view)
    if problems:
        raise DataCorruptionError(f"segment {name!r}: {problems[0]}{_and_more(problems)}")


def _look_at_segment(
    data: InspectedData, name: str, *, deep: bool
) -> list[tuple[ReplayedContainer, SegmentView]]:
    """Return what there is of a segment: several if its name is used again.

    Raises:
        NoSuchSegmentError: there is none.
        DataCorruptionError: there is none where it was looked for, and that may be the wrong place.
    """
    replayed, found = find_segments(data, name)
    return [(replayed, view_segment(replayed, state, data.chunks, deep=deep)) for state in found]


def find_segments(data: InspectedData, name: str) -> tuple[ReplayedContainer, list[SegmentState]]:
    """Return what there is of a segment, and what was replayed to find it. Raises as inspect_segment."""
    container_id = data.container_of(name)
    if not data.problem and container_id in data.find_unmade():
        raise NoSuchSegmentError(name)  # nothing was ever accepted
    replayed, found = look_steadily(lambda: _find_segments(data, container_id, name))
    if not found and data.problem:
        raise DataCorruptionError(
            f"segment {name!r} is not in container {container_id}, but which one it belongs to is not known: "
            f"{data.problem}"
        )
    if not found:
        raise NoSuchSegmentError(name)
    return replayed, found


def _find_segments(
    data: InspectedData, container_id: int, name: str
) -> tuple[ReplayedContainer, list[SegmentState]]:
    """Return the segments of that name, and what was replayed to find them.

    Raises:
        SnapshotLostError: a running server cut the log meanwhile; try again.
    """
    replayed = replay_container(container_id, data.log(container_id))
    load_storage_table(replayed, data.chunks)
    found = [state for state in replayed.find(name) if not replayed.has_left_storage(state)]
    if all(replayed.is_retired(state) for state in found):
        inactive = read_inactive(replayed, open_catalogue(replayed, data.chunks))
        found += [state for state in inactive if state.name == name]
    return replayed, found


def _problems_of(view: SegmentView) -> list[str]:
    found = [f"chunk {chunk.name} is {chunk.state}" for chunk in view.chunks if chunk.is_damaged]
    return [view.storage_problem, *found] if view.storage_problem else found


def _and_more(problems: list[str]) -> str:
    return f", and {len(problems) - 1} more" if len(problems) > 1 else ""


def _segment_document(container_id: int, replayed: ReplayedContainer, view: SegmentView) -> dict[str, Any]:
    state = view.state
    return _segment_row(replayed, state) | {
        "container": container_id,
        "active": _is_active(replayed, state),
        "last_modified_ms": state.last_modified_ms,
        "attributes": attribute_words(state.attributes.durable),
        "stored_sealed": view.layout is not None and view.layout.sealed,
        "chunks": [asdict(chunk) for chunk in view.chunks],
        "log_only": [
            {"offset": item.offset, "end": item.end, "merged_from": item.source.name if item.source else None}
            for item in view.log_only
        ],
        "storage_problem": view.storage_problem,
    }


def _is_active(replayed: ReplayedContainer, state: SegmentState) -> bool:
    return replayed.state.by_id.get(state.segment_id) is state


def _print_segment(container_id: int, replayed: ReplayedContainer, view: SegmentView) -> None:
    state = view.state
    print_fields(
        [
            ("segment", state.name),
            ("id", state.segment_id),
            ("container", container_id),
            ("kind", kind_of(state)),
            ("status", status_of(replayed, state)),
            ("active", _is_active(replayed, state)),
            ("start offset", state.start_offset),
            ("durable length", state.durable_length),
            ("stored length", state.stored_length),
            ("stored sealed", view.layout is not None and view.layout.sealed),
            ("last modified", time_text(state.last_modified_ms) if state.last_modified_ms else None),
            ("storage", view.storage_problem or ("rows fit" if view.layout else "nothing stored yet")),
        ]
    )
    print_line("")
    rows = [
        (name, _attribute_text(name, value))
        for name, value in attribute_words(state.attributes.durable).items()
    ]
    print_columns(("ATTRIBUTE", "VALUE"), rows)
    print_line("")
    print_columns(
        ("START", "LENGTH", "OBJECT", "EPOCH", "BLOCKS", "CHECKSUMS", "CHUNK"),
        [
            (
                chunk.start,
                chunk.length,
                chunk.object_bytes,
                chunk.epoch,
                chunk.blocks,
                chunk.state,
                chunk.name,
            )
            for chunk in view.chunks
        ],
    )
    print_line("")
    for item in view.log_only:
        source = "" if item.source is None else f", merged from {printable(item.source.name)}"
        print_line(f"unstored: [{item.offset}, {item.end}){source}")
    if not view.log_only:
        print_line("unstored: nothing")


def _attribute_text(name: str, value: int | None) -> str:
    if name == "creation_time" and value is not None:
        return f"{value} ({time_text(value)})"
    return str(value)
