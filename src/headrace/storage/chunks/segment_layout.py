"""What one segment's rows say about it as a whole: the snapshot that plans read and replace.

::

    first chunk                                  last chunk
    |------------|----------|-------- ... -------|-----~~~~~     ~ not committed: they do not exist
    ^ first_chunk_start   ^ start_offset         ^ last_start
                                                       ^ length

Two rows, however many chunks there are: its own and that of its last chunk. Nothing that changes a segment
needs the chunks in between; a read finds them in a :class:`ChunkIndex`.

A layout is never changed in place. Plans build a new one together with the rows that make it true.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator
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

GetRow = Callable[[str], bytes | None]


@dataclass(slots=True)
class Chunk:
    """One chunk of a segment; ``length`` committed bytes. Treated as immutable."""

    name: str
    epoch: int
    """Container epoch."""
    length: int
    block_bytes: int
    checksums: array[int] = field(default_factory=lambda: array("I"))
    """Checksums of the blocks that no ChecksumRow covers yet."""


@dataclass(slots=True)
class SegmentLayout:
    """One segment. Treated as immutable."""

    segment: str
    owner_epoch: int
    rollover_bytes: int
    length: int = 0
    start_offset: int = 0
    sealed: bool = False
    chunk_count: int = 0
    first_chunk: str = ""
    """Empty if there are no chunks."""

    first_chunk_start: int = 0
    """``length`` if there are no chunks."""

    last: Chunk | None = None

    @property
    def last_start(self) -> int:
        """Offset of the last chunk's first byte; ``length`` if there are no chunks."""
        return self.length - self.last.length if self.last is not None else self.length

    def put_segment_row(self, rows: Rows) -> None:
        rows[segment_key(self.segment)] = encode_segment_row(
            SegmentRow(
                self.owner_epoch,
                self.length,
                self.start_offset,
                self.sealed,
                self.rollover_bytes,
                self.first_chunk_start,
                self.chunk_count,
                self.first_chunk,
                self.last.name if self.last is not None else "",
            )
        )

    def findings(self) -> list[str]:
        """Return what is wrong, one sentence each; nothing if all invariants hold."""
        found = []
        last = self.last
        if not 0 <= self.first_chunk_start <= self.start_offset <= self.length:
            found.append(
                f"starts are out of order: {self.first_chunk_start}, {self.start_offset}, {self.length}"
            )
        if last is None:
            if self.chunk_count or self.first_chunk:
                found.append(
                    f"the last of {self.chunk_count} chunks from {self.first_chunk!r} on has no name"
                )
            if self.first_chunk_start != self.length:
                found.append(f"no chunk holds [{self.first_chunk_start}, {self.length})")
            return found
        found += find_faults(self, last)
        if self.chunk_count < 1 or (self.chunk_count == 1) != (last.name == self.first_chunk):
            found.append(f"{self.chunk_count} chunks lead from {self.first_chunk!r} to {last.name!r}")
        elif self.chunk_count == 1 and self.last_start != self.first_chunk_start:
            found.append(f"the only chunk starts at {self.last_start}, not at {self.first_chunk_start}")
        elif self.last_start < self.first_chunk_start + self.chunk_count - 1:
            found.append(f"{self.chunk_count} chunks do not fit into {self.length} bytes")
        return found

    def check(self) -> None:
        """Assert all invariants."""
        assert not self.findings(), self.findings()


def put_chunk_row(rows: Rows, chunk: Chunk, following: str) -> None:
    """Add the row of a chunk; ``following`` is the name of the one behind it, or empty."""
    rows[chunk_key(chunk.name)] = encode_chunk_row(
        ChunkRow(chunk.epoch, chunk.length, chunk.block_bytes, chunk.checksums, following)
    )


def load_layout(segment: str, get: GetRow) -> SegmentLayout | None:
    """Build the layout of a segment from two rows; None if there is no such segment.

    Raises:
        DataCorruptionError: one of them is damaged or missing, or they contradict each other.
    """
    key = segment_key(segment)
    data = get(key)
    if data is None:
        return None
    row = decode_segment_row(data, key)
    last, following = load_chunk(row.last_chunk, get) if row.last_chunk else (None, "")
    layout = SegmentLayout(
        segment,
        row.owner_epoch,
        row.rollover_bytes,
        row.length,
        row.start_offset,
        row.sealed,
        row.chunk_count,
        row.first_chunk,
        row.first_chunk_start,
        last,
    )
    findings = layout.findings()
    if following:
        findings.append(f"the chunk after the last of {row.chunk_count} is {following!r}")
    if findings:
        raise contradiction(segment, findings)
    return layout


def load_chunk(name: str, get: GetRow) -> tuple[Chunk, str]:
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


def walk_chunks(layout: SegmentLayout, get: GetRow) -> Iterator[tuple[Chunk, int]]:
    """Yield all chunks of a segment in order, with the offset of their first byte. One row each.

    Raises:
        DataCorruptionError: a row is damaged or missing, or they contradict each other.
    """
    name, start = layout.first_chunk, layout.first_chunk_start
    for number in range(1, layout.chunk_count + 1):
        chunk, following = load_chunk(name, get)
        check_link(layout, chunk, start, following, number)
        yield chunk, start
        name, start = following, start + chunk.length


def check_link(layout: SegmentLayout, chunk: Chunk, start: int, following: str, number: int) -> None:
    """Check that a chunk, the ``number``-th from 1, can start there and be followed by that one.

    Raises:
        DataCorruptionError: the row of the segment says something else.
    """
    end = start + chunk.length
    findings = find_faults(layout, chunk)
    if number < layout.chunk_count - 1:
        is_right = bool(following) and end < layout.last_start
    elif number < layout.chunk_count:
        is_right = layout.last is not None and following == layout.last.name and end == layout.last_start
    else:
        is_right = not following and end == layout.length
    if not is_right:
        last = layout.last.name if layout.last is not None else ""
        findings.append(
            f"chunk {chunk.name!r}, {number} of {layout.chunk_count}, ends at {end} in front of "
            f"{following!r}, the last is {last!r} from {layout.last_start} on"
        )
    if findings:
        raise contradiction(layout.segment, findings)


def find_faults(layout: SegmentLayout, chunk: Chunk) -> list[str]:
    """Return what cannot be of a chunk wherever it lies, one sentence each."""
    found = []
    if chunk.length <= 0:
        found.append(f"chunk {chunk.name!r} has {chunk.length} bytes")
    if chunk.epoch > layout.owner_epoch:
        found.append(
            f"chunk {chunk.name!r} has container epoch {chunk.epoch}, its owner {layout.owner_epoch}"
        )
    return found


def contradiction(segment: str, findings: list[str]) -> DataCorruptionError:
    return DataCorruptionError(f"layout of segment {segment!r}: " + "; ".join(findings))
