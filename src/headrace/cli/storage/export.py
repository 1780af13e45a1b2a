"""``headrace storage export``: the bytes of segments out of the data of a stopped server."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from typing import Final

from crc32c import crc32c

from headrace.cli.inspect.attribute_names import attribute_name
from headrace.cli.inspect.chunk_access import ChunkAccess
from headrace.cli.inspect.data import InspectedData, open_data
from headrace.cli.output import print_json, print_line, printable
from headrace.cli.progress import Progress
from headrace.cli.storage.export_places import open_place
from headrace.errors import (
    DataCorruptionError,
    DirectoryLockedError,
    InvalidArgumentError,
)
from headrace.limits import MIB
from headrace.model import attributes as attr
from headrace.model.names import find_stream_segment
from headrace.runtime.clock import SystemClock
from headrace.segmentstore.inspection.container_check import replay_with_catalogue
from headrace.segmentstore.inspection.container_replay import ReplayedContainer
from headrace.segmentstore.inspection.inactive_segments import read_inactive
from headrace.segmentstore.inspection.segment_content import SegmentContents
from headrace.segmentstore.state.segment_state import SegmentState
from headrace.storage.identity_format import IDENTITY_NAME
from headrace.storage.providers.files.chunk_paths import encode_chunk_path
from headrace.storage.transfer.export_format import LIST_NAME, ExportedSegment, encode_list
from headrace.storage.transfer.header_layout import HeaderEntry, encode_header, header_name, part_name
from headrace.storage.transfer.plain_files import ExportPlace

PART_BYTES: Final = 64 * MIB

_OF_STORES: Final = (IDENTITY_NAME, encode_chunk_path(IDENTITY_NAME))
"""What a store of chunks has: an object, or a file."""


def export(*, names: Sequence[str], target: str, storage: str | None, data_dir: str, as_json: bool) -> None:
    """Export, then say what was. An export that breaks off has no list."""
    with Progress("exporting", "B", quiet=as_json) as progress:
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
    with open_place(target) as place:
        if any(place.find_length(name) is not None for name in _OF_STORES):
            raise InvalidArgumentError(f"{target} is the store of a system: choose another place")
        if place.find_length(LIST_NAME) is not None:
            raise InvalidArgumentError(f"{target} holds an export already: choose another place")
        exported: list[ExportedSegment] = []
        for container_id in data.with_logs(None, json=False):
            exported += _export_container(data, container_id, wanted, place)
        missing = wanted - {name for segment in exported for name in _names_of(segment.segment)}
        if missing:
            raise InvalidArgumentError(
                f"{data.directory} has no stream or segment {min(missing)!r}: give SCOPE/STREAM"
            )
        place.put(LIST_NAME, [encode_list(exported, SystemClock().now_ms())])
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
        if place.find_length(header_name(state.name)) is not None:
            raise InvalidArgumentError(f"there is a segment {state.name!r} already: choose another place")
        try:
            yield _export_segment(contents, state, place)
        except DataCorruptionError as error:
            raise DataCorruptionError(
                f"{error}; if headrace storage check finds no damage, start the server and stop it: bytes of "
                "transactions that were merged last are put in their place then"
            ) from error


def _export_segment(contents: SegmentContents, state: SegmentState, place: ExportPlace) -> ExportedSegment:
    entries: list[HeaderEntry] = []
    checksum, pending, size = 0, list[bytes](), 0
    offset = state.start_offset

    def put_part() -> None:
        nonlocal offset, size
        entries.append(HeaderEntry(offset, part_name(state.name, offset)))
        place.put(entries[-1].name, pending)
        offset += size
        size = 0
        pending.clear()

    for _, piece in contents.pieces(state):
        checksum = crc32c(piece, checksum)
        for begin in range(0, len(piece), PART_BYTES):
            part = bytes(piece[begin : begin + PART_BYTES])
            if size + len(part) > PART_BYTES:
                put_part()
            pending.append(part)
            size += len(part)
    put_part()  # also of no bytes: the header says where the segment begins
    place.put(header_name(state.name), [encode_header(entries)])
    core = {
        attribute_name(key): value
        for key, value in state.attributes.accepted.items()
        if attr.is_core_attribute(key)
    }
    return ExportedSegment(state.name, state.start_offset, state.durable_length, state.sealed, checksum, core)
