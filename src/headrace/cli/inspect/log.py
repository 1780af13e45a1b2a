"""What ``headrace inspect wal``, ``frames`` and ``operations`` print: a container's log at three depths."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, Final

from headrace.cli.inspect.container_failures import ContainerFailures
from headrace.cli.inspect.data import InspectedData, open_data, time_text
from headrace.cli.inspect.operation_words import OperationWords, describe_operation
from headrace.cli.output import print_columns, print_fields, print_json, print_line
from headrace.cli.streamed_columns import StreamedColumns
from headrace.errors import DataCorruptionError, InvalidArgumentError, SnapshotLostError
from headrace.segmentstore.inspection.frames import FoundOperation, read_operations, summarise_frames
from headrace.segmentstore.operations import catalogue as ops
from headrace.segmentstore.state.metadata_checkpoint import decode_segment_row, join_rows
from headrace.wal.inspect import InspectedFile, RecordStatus, inspect_records, inspected
from headrace.wal.logs import LogSnapshot, look_steadily
from headrace.wal.record_format import RecordHeader

_DAMAGE_SHOWN: Final = 100


# ------------------------------------------------------------------------------------------ wal


@dataclass(slots=True)
class FileSummary:
    """One segment file of a log; ``living_bytes`` is the content of its living records."""

    file: str
    size_bytes: int
    epoch: int | None
    number: int | None
    head: str
    first_address: int | None = None
    last_address: int | None = None
    living: int = 0
    living_bytes: int = 0
    dropped: int = 0
    recycled: int = 0
    damaged: int = 0


def inspect_wal(*, data_dir: str, container: int | None, as_json: bool) -> None:
    """Files, owner, addresses of each log; what is torn or damaged, and where."""
    data = open_data(data_dir)
    failures = ContainerFailures()
    for container_id in data.with_logs(container, json=as_json):
        with failures.collected(container_id, json=as_json) as document:
            found, files, torn = look_steadily(partial(_look_at_log, data, container_id))
            document.update(_wal_document(found, files, torn))
            if not as_json:
                _print_wal(container_id, found, files, torn)
            if found.problem:
                failures.add(container_id, DataCorruptionError(found.problem))
    failures.raise_worst()


def _look_at_log(
    data: InspectedData, container_id: int
) -> tuple[LogSnapshot, list[FileSummary], list[dict[str, Any]]]:
    """Return a log, its files, and the records that are damaged.

    Raises:
        SnapshotLostError: a running server removed or recycled a file before it was looked into.
        DataCorruptionError, OSError: as ``FoundLog.snapshot``.
    """
    found = data.log(container_id).snapshot()
    torn: list[dict[str, Any]] = []
    prefix = _readable_prefix(found) if found.problem else {}
    try:
        files = [_summarise_file(found, file, data, prefix, torn) for file in inspected(found).files]
    except FileNotFoundError as error:
        raise SnapshotLostError(f"the log in {found.place} was truncated while it was read") from error
    return found, files, torn


def _summarise_file(
    found: LogSnapshot,
    file: InspectedFile,
    data: InspectedData,
    prefix: dict[str, tuple[int, int]],
    torn: list[dict[str, Any]],
) -> FileSummary:
    begin, end = prefix.get(file.name, (0, -1))
    head = file.head
    summary = FileSummary(
        file.name,
        file.size_bytes,
        head.epoch if head else None,
        head.number if head else None,
        "whole" if head else "damaged",
    )
    for record in inspect_records(inspected(found), file.name, data.files):
        match record.status:
            case RecordStatus.LIVING:
                _count_living(summary, record.header)
            case RecordStatus.DROPPED if begin <= record.offset <= end:
                _count_living(summary, record.header)
            case RecordStatus.DROPPED:
                summary.dropped += 1
            case RecordStatus.RECYCLED:
                summary.recycled += 1
            case RecordStatus.DAMAGED:
                summary.damaged += 1
                if len(torn) < _DAMAGE_SHOWN:
                    torn.append(
                        {
                            "file": file.name,
                            "offset": record.offset,
                            "address": record.header.sequence,
                            "bytes": record.header.length,
                            "verdict": "damaged"
                            if found.problem
                            else "torn or dropped: recovery does not need it",
                        }
                    )
    return summary


def _readable_prefix(found: LogSnapshot) -> dict[str, tuple[int, int]]:
    """Of a damaged log: where in each file lie the first and the last frame in front of the damage."""
    places: dict[str, tuple[int, int]] = {}
    try:
        for frame in found.frames():
            places[frame.file] = (places.get(frame.file, (frame.offset, 0))[0], frame.offset)
    except DataCorruptionError:
        pass  # it is shown as the state of the log
    return places


def _count_living(summary: FileSummary, header: RecordHeader) -> None:
    if summary.first_address is None:
        summary.first_address = header.sequence
    summary.last_address = header.sequence
    summary.living += 1
    summary.living_bytes += header.length


def _wal_document(found: LogSnapshot, files: list[FileSummary], torn: list[dict[str, Any]]) -> dict[str, Any]:
    owner = inspected(found).owner
    return {
        "directory": found.place,
        "owner": None
        if owner is None
        else {
            "container_epoch": owner.epoch,
            "taken_at_ms": owner.taken_at_ms,
            "token": owner.token.hex(),
            "log_id": owner.log_id.hex(),
        },
        "first_address": found.first_address,
        "next_address": found.next_address,
        "problem": found.problem,
        "files": [asdict(file) for file in files],
        "damaged_records": torn,
    }


def _print_wal(
    container_id: int, found: LogSnapshot, files: list[FileSummary], torn: list[dict[str, Any]]
) -> None:
    owner = inspected(found).owner
    print_fields(
        [
            ("container", container_id),
            ("log", found.place),
            ("state", found.problem or "whole"),
            (
                "owner",
                None
                if owner is None
                else f"container epoch {owner.epoch}, since {time_text(owner.taken_at_ms)}, "
                f"token {owner.token.hex()}",
            ),
            (
                "addresses",
                None if found.problem else f"{found.first_address} up to {found.next_address} (not included)",
            ),
            ("frames", sum(file.living for file in files)),
            ("bytes", sum(file.living_bytes for file in files)),
        ]
    )
    titles = (
        "FILE",
        "SIZE",
        "EPOCH",
        "HEAD",
        "FIRST",
        "LAST",
        "FRAMES",
        "BYTES",
        "DROPPED",
        "RECYCLED",
        "DAMAGED",
    )
    print_columns(
        titles,
        [
            (
                file.file,
                file.size_bytes,
                file.epoch,
                file.head,
                file.first_address,
                file.last_address,
                file.living,
                file.living_bytes,
                file.dropped,
                file.recycled,
                file.damaged,
            )
            for file in files
        ],
    )
    if found.problem:
        print_line("frames after the damage are counted as dropped: whether they are live is unknown")
    for record in torn:
        print_line("record {address} in {file} at offset {offset}, {bytes} bytes: {verdict}".format(**record))
    print_line("")


# ------------------------------------------------------------------------------------------ frames


def inspect_frames(*, data_dir: str, container: int | None, as_json: bool) -> None:
    """One line per living data frame."""
    data = open_data(data_dir)
    container_id = data.only_with_log(container, json=as_json)
    if container_id is None:
        return
    found = data.log(container_id).snapshot()
    table = StreamedColumns(
        ("ADDRESS", "EPOCH", "TIME", "SIZE", "ENTRIES", "OPERATIONS", "FIRST", "LAST", "FILE", "OFFSET")
    )
    try:
        for summary in summarise_frames(found.frames()):
            frame = summary.frame
            if as_json:
                print_json(
                    {
                        "address": frame.address,
                        "container_epoch": frame.epoch,
                        "time_ms": summary.time_ms,
                        "size": summary.size_bytes,
                        "entries": summary.entries,
                        "operations": summary.operations,
                        "first_sequence": summary.first_sequence or None,
                        "last_sequence": summary.last_sequence or None,
                        "file": frame.file,
                        "offset": frame.offset,
                    }
                )
                continue
            table.add(
                frame.address,
                frame.epoch,
                time_text(summary.time_ms),
                summary.size_bytes,
                summary.entries,
                summary.operations,
                summary.first_sequence,
                summary.last_sequence,
                frame.file,
                frame.offset,
            )
    finally:
        if not as_json:
            table.close()


# ------------------------------------------------------------------------------------------ operations


def inspect_operations(
    *,
    data_dir: str,
    container: int | None,
    segment: str | None,
    from_sequence: int,
    limit: int | None,
    as_json: bool,
) -> None:
    """One line per operation of the durable log."""
    if limit is not None and limit < 1:
        raise InvalidArgumentError(f"at least 1 operation has to be shown, not {limit}")
    data = open_data(data_dir)
    if container is None and segment is not None:
        container = data.container_of(segment)
    container_id = data.only_with_log(container, json=as_json)
    if container_id is None:
        return
    found = data.log(container_id).snapshot()
    names = _names_of_first_checkpoint(found)
    table = StreamedColumns(("SEQUENCE", "KIND", "SEGMENT", "ID", "ADDRESS", "DETAILS"))
    shown = 0
    try:
        for operation, words in _described(found, names):
            if operation.operation.sequence < from_sequence:
                continue
            if segment is not None and not words.is_about(segment):
                continue
            if limit is not None and shown >= limit:
                break
            shown += 1
            address = operation.begin_address
            if as_json:
                print_json(words.document() | {"address": address})
            else:
                sequence, segment_id = operation.operation.sequence, words.segment_id or None
                table.add(sequence, words.kind, words.segment, segment_id, address, words.details())
    finally:
        if not as_json:
            table.close()


def _described(found: LogSnapshot, names: dict[int, str]) -> Iterator[tuple[FoundOperation, OperationWords]]:
    for item in read_operations(found.frames()):
        if isinstance(item.operation, ops.MapSegment):
            names[item.operation.segment_id] = item.operation.name
        elif isinstance(item.operation, ops.ActivateSegment):
            names[item.operation.segment_id] = decode_segment_row(item.operation.row).name
        yield item, describe_operation(item.operation, names)


def _names_of_first_checkpoint(found: LogSnapshot) -> dict[int, str]:
    """Names of the segments the log begins with: operations mention their ids only."""
    names: dict[int, str] = {}
    rows: list[ops.Buffer] | None = None
    try:
        for item in read_operations(found.frames()):
            if isinstance(item.operation, ops.CheckpointBegin):
                rows = []  # its owner may have ended in the middle of the one before
            elif rows is None:
                continue  # the log may begin with the rest of one
            elif isinstance(item.operation, ops.CheckpointPart):
                rows += item.operation.segment_rows
            elif isinstance(item.operation, ops.CheckpointEnd):
                break
        for row in join_rows(rows or []):
            state = decode_segment_row(row)
            names[state.segment_id] = state.name
    except DataCorruptionError:
        pass  # said again, in its place, by the reading that follows
    return names
