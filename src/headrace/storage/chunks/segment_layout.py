"""Which chunks hold which bytes of one segment: the snapshot that plans read and replace.

::

    first chunk                                  last chunk
    |------------|----------|-------- ... -------|-----~~~~~     ~ bytes nobody committed: they do not exist
    ^ first_chunk_start   ^ start_offset         ^ starts[-1]
                                                       ^ length

A layout is never changed in place. Plans build a new one together with the rows that make it true; whoever
holds the old one (a read in progress) keeps a consistent view.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass, field

from headrace.errors import DataCorruptionError
from headrace.storage.metadata.rows import (
    ChunkRow,
    SegmentRow,
    chunk_key,
    decode_chunk_row,
    decode_segment_row,
    encode_chunk_row,
    encode_segment_row,
    segment_key,
)

Rows = dict[str, bytes | None]
"""Changes of rows, as a row store commits them: bytes to put, None to delete."""


@dataclass(slots=True)
class Chunk:
    """One chunk of a segment; ``length`` committed bytes. Treated as immutable."""

    name: str
    epoch: int
    length: int
    block_bytes: int
    checksums: array[int] = field(default_factory=lambda: array("I"))
    """Checksums of the blocks that no ChecksumRow covers yet."""


@dataclass(slots=True)
class SegmentLayout:
    """All chunks of one segment, in order. Treated as immutable."""

    segment: str
    owner_epoch: int
    rollover_bytes: int
    length: int = 0
    start_offset: int = 0
    sealed: bool = False
    chunks: list[Chunk] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)
    """Offset in the segment of each chunk's first byte."""

    @property
    def first_chunk_start(self) -> int:
        return self.starts[0] if self.starts else self.length

    def copy(self) -> SegmentLayout:
        """Return a layout whose lists may be changed by the caller."""
        return SegmentLayout(
            self.segment,
            self.owner_epoch,
            self.rollover_bytes,
            self.length,
            self.start_offset,
            self.sealed,
            self.chunks.copy(),
            self.starts.copy(),
        )

    def index_of(self, offset: int) -> int:
        """Return the index of the chunk that holds the byte at ``offset``. O(log chunks)."""
        assert self.first_chunk_start <= offset < self.length
        return bisect_right(self.starts, offset) - 1

    def has_chunk(self, name: str) -> bool:
        return any(chunk.name == name for chunk in self.chunks)

    def put_segment_row(self, rows: Rows) -> None:
        rows[segment_key(self.segment)] = encode_segment_row(
            SegmentRow(
                self.owner_epoch,
                self.length,
                self.start_offset,
                self.sealed,
                self.rollover_bytes,
                self.first_chunk_start,
                len(self.chunks),
                self.chunks[0].name if self.chunks else "",
                self.chunks[-1].name if self.chunks else "",
            )
        )

    def put_chunk_row(self, rows: Rows, index: int) -> None:
        chunk = self.chunks[index]
        following = self.chunks[index + 1].name if index + 1 < len(self.chunks) else ""
        rows[chunk_key(chunk.name)] = encode_chunk_row(
            ChunkRow(chunk.epoch, chunk.length, chunk.block_bytes, chunk.checksums, following)
        )

    def findings(self) -> list[str]:
        """Return what is wrong, one sentence each; nothing if all invariants hold. O(chunks)."""
        found = []
        if not 0 <= self.first_chunk_start <= self.start_offset <= self.length:
            found.append(
                f"starts are out of order: {self.first_chunk_start}, {self.start_offset}, {self.length}"
            )
        if len(self.starts) != len(self.chunks):
            found.append(f"{len(self.chunks)} chunks have {len(self.starts)} starts")
        at = self.first_chunk_start
        for chunk, start in zip(self.chunks, self.starts, strict=False):
            if start != at:
                found.append(f"chunk {chunk.name!r} starts at {start}, the bytes before it end at {at}")
            if chunk.length <= 0:
                found.append(f"chunk {chunk.name!r} has {chunk.length} bytes")
            if chunk.epoch > self.owner_epoch:
                found.append(
                    f"chunk {chunk.name!r} is of epoch {chunk.epoch}, the owner of {self.owner_epoch}"
                )
            at = start + chunk.length
        if self.chunks and at != self.length:
            found.append(f"the chunks end at {at}, the segment at {self.length}")
        if self.chunks and self.starts[0] + self.chunks[0].length <= self.start_offset:
            found.append(f"the first chunk lies wholly below the start offset {self.start_offset}")
        return found

    def check(self) -> None:
        """Assert all invariants."""
        assert not self.findings(), self.findings()


def load_layout(segment: str, get: Callable[[str], bytes | None]) -> SegmentLayout | None:
    """Build the layout of a segment from its rows; None if there is no such segment.

    Raises:
        DataCorruptionError: a row is damaged or missing, or they contradict each other.
    """
    key = segment_key(segment)
    data = get(key)
    if data is None:
        return None
    row = decode_segment_row(data, key)
    layout = SegmentLayout(
        segment, row.owner_epoch, row.rollover_bytes, row.length, row.start_offset, row.sealed
    )
    name, start = row.first_chunk, row.first_chunk_start
    for _ in range(row.chunk_count):
        chunk, following = load_chunk(name, get)
        layout.chunks.append(chunk)
        layout.starts.append(start)
        start += chunk.length
        name = following
    last = layout.chunks[-1].name if layout.chunks else ""
    findings = layout.findings()
    if name:
        findings.append(f"the chunk behind the last of {row.chunk_count} is {name!r}")
    if last != row.last_chunk or row.first_chunk_start != layout.first_chunk_start:
        findings.append(f"the row says last chunk {row.last_chunk!r} and start {row.first_chunk_start}")
    if findings:
        raise DataCorruptionError(f"layout of segment {segment!r}: " + "; ".join(findings))
    return layout


def load_chunk(name: str, get: Callable[[str], bytes | None]) -> tuple[Chunk, str]:
    """Return a chunk and the name of the one behind it.

    Raises:
        DataCorruptionError: its row is missing or damaged.
    """
    key = chunk_key(name)
    data = get(key)
    if data is None:
        raise DataCorruptionError(f"row {key!r} is missing")
    row = decode_chunk_row(data, key)
    return Chunk(name, row.epoch, row.length, row.block_bytes, row.checksums), row.next_chunk
