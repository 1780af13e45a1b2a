"""What a rebuilt container has, and what of it is newer in the store: read from log and chunks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from headrace.btree.lookup import read_range
from headrace.model import attributes as attr
from headrace.model.attributes import ATTRIBUTE_NULL
from headrace.model.names import primary_name
from headrace.repair.rebuild.stream_segments import find_stream_segments
from headrace.segmentstore.inspection.container_replay import ReplayedContainer
from headrace.segmentstore.inspection.inactive_segments import open_catalogue, read_inactive
from headrace.segmentstore.inspection.index_pages import IndexPages
from headrace.segmentstore.inspection.storage_table import load_storage_table
from headrace.segmentstore.segment_names import is_internal
from headrace.segmentstore.state.segment_state import SegmentState
from headrace.storage.checkpoints.manifest import Manifest
from headrace.storage.chunks.chunk_names import parse_chunk_name
from headrace.storage.chunks.segment_layout import load_layout
from headrace.storage.inspect import StoredChunks
from headrace.storage.metadata.rows import CHUNK_PREFIX, decode_chunk_row

_WRITER_BYTES: Final = 16
_ENTRIES_AT_ONCE: Final = 1000
"""Entries of one read of an index: a segment may have had any number of writers, and a read is in memory."""
_NEWER_MAX: Final = 100_000


@dataclass(slots=True)
class RebuiltSegment:
    """One segment. Offsets in bytes: it ends at ``length``, of which ``stored_length`` is in chunks."""

    name: str
    start_offset: int
    stored_length: int
    length: int
    sealed: bool
    is_transaction: bool
    """Part of a transaction that was neither committed nor aborted then: its outcome is unknown here."""
    writers: dict[str, int]
    """Last event number of each writer, by its id in hex."""


@dataclass(slots=True)
class NewerObject:
    """Bytes in the store that are not part of the rebuilt system."""

    name: str
    segment: str
    epoch: int
    offset: int
    bytes: int


@dataclass(slots=True)
class RebuiltContainer:
    """One container and the storage checkpoint that it was rebuilt from. Times in ms since 1970."""

    container: int
    checkpoint: str
    time_ms: int
    lost_tail_ms: int
    """From the checkpoint to the rebuild: what was written meanwhile is not part of the rebuilt system."""
    records: int
    bytes: int
    passed_over: list[str]
    """What was wrong with newer checkpoints."""
    segments: list[RebuiltSegment] = field(default_factory=list)
    newer: list[NewerObject] = field(default_factory=list)
    newer_bytes: int = 0
    newer_left_out: int = 0

    def add_newer(self, found: NewerObject) -> None:
        self.newer_bytes += found.bytes
        if len(self.newer) < _NEWER_MAX:
            self.newer.append(found)
        else:
            self.newer_left_out += 1


def describe(
    replayed: ReplayedContainer, chunks: StoredChunks, manifest: Manifest, now_ms: int, passed_over: list[str]
) -> tuple[RebuiltContainer, list[tuple[str, str]]]:
    """Describe a container of which the log is rebuilt; reads the tables of the container from chunks.

    Returns also streams with their segments, as the rows of the controller have them that are in it.

    Raises:
        DataCorruptionError: what the log names is damaged or missing: another checkpoint has to be used.
        OSError: the store did not answer.
    """
    catalogue = open_catalogue(replayed, chunks)
    load_storage_table(replayed, chunks)
    report = RebuiltContainer(
        manifest.container,
        str(manifest.checkpoint),
        manifest.time_ms,
        max(0, now_ms - manifest.time_ms),
        manifest.records,
        manifest.size_bytes,
        passed_over,
    )
    segments = [*replayed.state.by_name.values(), *read_inactive(replayed, catalogue)]
    for segment in segments:
        if not is_internal(segment.name):
            report.segments.append(_describe(segment, replayed, chunks))
    report.segments.sort(key=lambda found: found.name)
    return report, list(find_stream_segments(segments, replayed, chunks))


def _describe(segment: SegmentState, replayed: ReplayedContainer, chunks: StoredChunks) -> RebuiltSegment:
    layout = load_layout(segment.storage_name, replayed.storage_row)
    return RebuiltSegment(
        segment.name,
        segment.start_offset,
        0 if layout is None else layout.length,
        segment.durable_length,
        segment.sealed,
        primary_name(segment.name) != segment.name,
        {} if segment.is_table else dict(_writers(segment, replayed, chunks)),
    )


def _writers(
    segment: SegmentState, replayed: ReplayedContainer, chunks: StoredChunks
) -> Iterator[tuple[str, int]]:
    """Yield the writers of a segment with their last event numbers: those in its index, then newer ones."""
    pages = IndexPages(segment.index_storage_name, replayed.storage_row, chunks)
    root = pages.root()
    first: bytes | None = None if root is None else bytes(root.key_bytes)
    while root is not None and first is not None:
        size = root.key_bytes
        found = pages.run(read_range(root, first, b"\xff" * size, _ENTRIES_AT_ONCE))
        for place, value in enumerate(found.values):
            if value != ATTRIBUTE_NULL:
                yield found.keys[place * size : (place + 1) * size].hex(), value
        last = found.keys[-size:]
        is_end = len(found.values) < _ENTRIES_AT_ONCE or last == b"\xff" * size
        first = None if is_end else (int.from_bytes(last, "big") + 1).to_bytes(size, "big")
    for key, value in segment.attributes.durable.items():
        if len(key) == _WRITER_BYTES and not attr.is_core_attribute(key) and value != ATTRIBUTE_NULL:
            yield key.hex(), value


def find_newer(
    listed: Mapping[str, int], reports: Mapping[str, RebuiltContainer], rows: Mapping[str, bytes]
) -> None:
    """Add what the store has beyond the rows of the rebuilt containers, which ``reports`` has by incarnation.

    ``rows`` are all rows of chunks, ``listed`` all objects with their lengths.
    """
    for name, length in sorted(listed.items()):
        parsed = parse_chunk_name(name)
        report = None if parsed is None else reports.get(parsed.incarnation)
        if parsed is None or report is None:
            continue
        row = rows.get(CHUNK_PREFIX + name)
        known = 0 if row is None else decode_chunk_row(row, name).length
        if length > known or row is None:
            offset = parsed.offset + known
            report.add_newer(NewerObject(name, parsed.segment, parsed.epoch, offset, length - known))
