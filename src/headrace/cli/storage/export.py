"""``headrace storage export``: bytes of segments out of the data of a stopped server, or of a running one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict

from headrace.cli.inspect.attribute_names import attribute_name
from headrace.cli.inspect.chunk_access import ChunkAccess
from headrace.cli.inspect.data import InspectedData, open_data
from headrace.cli.output import print_json, print_line, printable
from headrace.cli.progress import Progress
from headrace.cli.servers import Connection
from headrace.cli.storage.export_online import export_online
from headrace.cli.storage.exported_segments import open_new_export, put_list, put_segment
from headrace.errors import (
    DataCorruptionError,
    DirectoryLockedError,
    InvalidArgumentError,
)
from headrace.model import attributes as attr
from headrace.model.names import find_stream_segment
from headrace.segmentstore.inspection.container_check import replay_with_catalogue
from headrace.segmentstore.inspection.container_replay import ReplayedContainer
from headrace.segmentstore.inspection.inactive_segments import read_inactive
from headrace.segmentstore.inspection.segment_content import SegmentContents
from headrace.segmentstore.state.segment_state import SegmentState
from headrace.storage.transfer.export_format import ExportedSegment
from headrace.storage.transfer.plain_files import ExportPlace


def export(
    *,
    names: Sequence[str],
    target: str,
    storage: str | None,
    data_dir: str,
    online: bool,
    connection: Connection,
    as_json: bool,
) -> None:
    """Export, then say what was. An export that breaks off has no list."""
    with Progress("exporting", "B", quiet=as_json) as progress:
        if online:
            with open_new_export(target) as place:
                exported = export_online(connection, names, place, progress)
        else:
            exported = _export(set(names), target, data_dir, ChunkAccess(storage or "", progress=progress))
    for segment in exported:
        if as_json:
            print_json(asdict(segment))
        else:
            state = "sealed" if segment.sealed else "open"
            print_line(printable(f"{segment.segment}: [{segment.start}, {segment.length}), {state}"))


def _export(wanted: set[str], target: str, data_dir: str, access: ChunkAccess) -> list[ExportedSegment]:
    data = open_data(data_dir, access)
    if data.locked:
        raise DirectoryLockedError(data.directory, f"{data.holder}: stop it first")
    data.check_system()
    with open_new_export(target) as place:
        exported: list[ExportedSegment] = []
        for container_id in data.with_logs(None, json=False):
            exported += _export_container(data, container_id, wanted, place)
        missing = wanted - {name for segment in exported for name in _names_of(segment.segment)}
        if missing:
            raise InvalidArgumentError(
                f"{data.directory} has no stream or segment {min(missing)!r}: give SCOPE/STREAM"
            )
        put_list(place, exported)
    return exported


def _names_of(segment: str) -> Iterator[str]:
    """Yield what a caller may have named to mean this segment."""
    yield segment
    found = find_stream_segment(segment)
    if found is not None:
        yield f"{found[0]}/{found[1]}"


def _export_container(
    data: InspectedData, container_id: int, wanted: set[str], place: ExportPlace
) -> Iterator[ExportedSegment]:
    replayed, catalogue = replay_with_catalogue(container_id, data.log(container_id), data.chunks)
    active = [state for state in replayed.state.by_name.values() if not replayed.is_retired(state)]
    inactive = list(read_inactive(replayed, catalogue))
    found = [state for state in (*active, *inactive) if not wanted.isdisjoint(_names_of(state.name))]
    for state in found:
        if state.is_table:
            raise InvalidArgumentError(f"{state.name!r} is a table: headrace table scan shows its entries")
    yield from _export_all(replayed, sorted(found, key=lambda state: state.name), data, place)


def _export_all(
    replayed: ReplayedContainer, segments: Iterable[SegmentState], data: InspectedData, place: ExportPlace
) -> Iterator[ExportedSegment]:
    segments = list(segments)
    contents = SegmentContents(replayed, segments, data.chunks)
    for state in segments:
        try:
            yield _export_segment(contents, state, place)
        except DataCorruptionError as error:
            raise DataCorruptionError(
                f"{error}; if headrace storage check finds no damage, start the server and stop it: bytes of "
                "transactions that were merged last are put in their place then"
            ) from error


def _export_segment(contents: SegmentContents, state: SegmentState, place: ExportPlace) -> ExportedSegment:
    pieces = (piece for _, piece in contents.pieces(state))
    checksum = put_segment(place, state.name, state.start_offset, pieces)
    core = {
        attribute_name(key): value
        for key, value in state.attributes.accepted.items()
        if attr.is_core_attribute(key)
    }
    return ExportedSegment(state.name, state.start_offset, state.durable_length, state.sealed, checksum, core)
