"""What is known about one segment of a stopped container: its state, its chunks, what only the log holds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from headrace.errors import DataCorruptionError, StorageReadError
from headrace.segmentstore.inspection.container_replay import ReplayedContainer
from headrace.segmentstore.inspection.log_coverage import LogRange
from headrace.segmentstore.state.segment_state import SegmentState
from headrace.storage.chunks.segment_layout import Chunk, SegmentLayout, load_layout, walk_chunks
from headrace.storage.inspect import StoredChunks

_VERIFIED: Final = "verified"
_NOT_VERIFIED: Final = "not verified"


@dataclass(slots=True)
class ChunkView:
    """One chunk: ``[start, start + length)`` of the segment; ``object_bytes`` None if its file is missing."""

    name: str
    path: str
    start: int
    length: int
    epoch: int
    blocks: int
    object_bytes: int | None
    state: str

    @property
    def is_damaged(self) -> bool:
        """Whether some of its bytes cannot be read, as far as was looked."""
        return self.state not in {_VERIFIED, _NOT_VERIFIED}


@dataclass(slots=True)
class SegmentView:
    """A segment with its storage."""

    state: SegmentState
    layout: SegmentLayout | None
    chunks: list[ChunkView]
    log_only: list[LogRange]
    storage_problem: str


def status_of(replayed: ReplayedContainer, segment: SegmentState) -> str:
    """Return ``open``, ``sealed``, ``merged`` or ``deleted``; the latter two until it is gone in storage."""
    if segment.deleted:
        return "deleted"
    if segment.merged:
        return "merged away" if replayed.has_left_storage(segment) else "merged"
    return "sealed" if segment.sealed else "open"


def view_segment(
    replayed: ReplayedContainer, segment: SegmentState, files: StoredChunks, *, deep: bool
) -> SegmentView:
    """Gather what the log, the rows and the files say; ``deep`` verifies every stored byte."""
    problem, layout = "", None
    chunks = []
    try:
        layout = load_layout(segment.storage_name, replayed.storage_row)
        for chunk, start in walk_chunks(layout, replayed.storage_row) if layout is not None else ():
            length, state = _look_at(files, chunk, replayed, deep=deep)
            blocks = -(-chunk.length // chunk.block_bytes)
            path = files.path(chunk.name)
            chunks.append(
                ChunkView(chunk.name, path, start, chunk.length, chunk.epoch, blocks, length, state)
            )
    except DataCorruptionError as error:
        problem = str(error)  # the chunks in front of it are shown
    return SegmentView(
        segment,
        layout,
        chunks,
        [] if replayed.is_retired(segment) else replayed.coverage.unstored(segment),
        problem,
    )


def _look_at(
    files: StoredChunks, chunk: Chunk, replayed: ReplayedContainer, *, deep: bool
) -> tuple[int | None, str]:
    """Return the length of a chunk's object, None if it has none or that is unknown, and its state."""
    try:
        length = files.find_length(chunk.name)
    except OSError as error:
        return None, f"unreadable: {error}"
    state = _length_state(chunk, length)
    return length, _verified_state(files, chunk, replayed) if deep and state == _NOT_VERIFIED else state


def _length_state(chunk: Chunk, length: int | None) -> str:
    if length is None:
        return "missing"
    return _NOT_VERIFIED if length >= chunk.length else "too short"


def _verified_state(files: StoredChunks, chunk: Chunk, replayed: ReplayedContainer) -> str:
    try:
        files.verify(chunk, replayed.storage_row)
    except DataCorruptionError as error:
        return "damaged" if error.offset is None else f"damaged at {error.offset}"
    except (OSError, StorageReadError) as error:
        return f"unreadable: {error}"
    return _VERIFIED
