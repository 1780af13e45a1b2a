"""Checks long-term storage of one container: rows against each other, the log, and objects."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from headrace.btree.check import check
from headrace.errors import ChecksumMismatchError, DataCorruptionError
from headrace.segmentstore.inspection.findings import FINDINGS_MAX, CheckReport, SegmentLoss
from headrace.segmentstore.inspection.index_pages import IndexPages
from headrace.segmentstore.segment_names import is_index, segment_id_of
from headrace.segmentstore.state.container_state import ContainerState
from headrace.storage.chunks.segment_layout import (
    Chunk,
    SegmentLayout,
    load_chunk,
    load_layout,
    walk_chunks,
)
from headrace.storage.inspect import StoredChunks
from headrace.storage.metadata.rows import (
    CHECKSUM_PREFIX,
    CHUNK_PREFIX,
    GARBAGE_PREFIX,
    INCARNATION_KEY,
    SEGMENT_PREFIX,
    decode_garbage_row,
    decode_incarnation_row,
)

_RESTORE: Final = "restore the file from a copy; until then reads of these bytes fail, all others work"
_KEEP: Final = "keep a copy of the data directory and report it: rows change together or not at all"
_UNREADABLE: Final = "look at the disk or the store, then check again"
_GROUP_CHARS: Final = 9
_VERIFIED_TOGETHER: Final = 256


class SegmentFacts(NamedTuple):
    """What storage has to agree with. A tuple: there may be very many inactive segments."""

    start_offset: int
    durable_length: int
    sealed: bool
    is_retired: bool = False
    """Merged or deleted: storage is removing it."""

    is_table: bool = False


class StorageCheck:
    """One pass over the rows and files of a container."""

    def __init__(
        self,
        state: ContainerState,
        files: StoredChunks,
        report: CheckReport,
        *,
        deep: bool,
        inactive: Mapping[int, SegmentFacts] | None,
        archived: dict[str, bytes] | None = None,
    ) -> None:
        self._state = state
        self._rows: Mapping[str, bytes] = ChainMap(state.storage_rows, archived or {})
        """Rows of active and of inactive segments."""
        self._files = files
        self._report = report
        self._deep = deep
        self._inactive = inactive
        """Inactive segments by id; None if they are not known."""
        self._reached: set[str] = set()
        self._to_verify: list[tuple[Chunk, str]] = []

    def run(self) -> None:
        keys = sorted(self._rows)
        self._report.chunk_names = {key[len(CHUNK_PREFIX) :] for key in keys if key.startswith(CHUNK_PREFIX)}
        self._check_incarnation()
        for key in keys:
            if key.startswith(SEGMENT_PREFIX):
                self._check_segment(key[len(SEGMENT_PREFIX) :])
            elif key.startswith(GARBAGE_PREFIX):
                self._check_garbage(key)
        self._verify()
        for key in keys:
            self._check_reached(key)

    def _check_incarnation(self) -> None:
        data = self._rows.get(INCARNATION_KEY)
        try:
            if data is not None:
                self._report.incarnation = decode_incarnation_row(data)
            elif self._report.chunk_names:
                self._report.damage(
                    "row", "chunks have rows but the incarnation has none", f"row {INCARNATION_KEY!r}", _KEEP
                )
        except DataCorruptionError as error:
            self._report.damage("row", str(error), f"row {INCARNATION_KEY!r}", _KEEP)

    def _check_segment(self, name: str) -> None:
        try:
            layout = load_layout(name, self._rows.get)
            assert layout is not None
            chunks = list(walk_chunks(layout, self._rows.get))
        except DataCorruptionError as error:
            self._report.damage("layout", str(error), f"segment {name!r}", _KEEP)
            return
        self._check_owner(layout)
        missing: list[int] = []
        for number, (chunk, start) in enumerate(chunks):
            self._reached.add(chunk.name)
            if not self._check_chunk(layout, chunk, start):
                missing.append(number)
        if missing:
            self._note_loss(layout, chunks, missing)
        if self._deep and is_index(name):
            self._check_index(name)

    def _check_index(self, name: str) -> None:
        try:
            pages = IndexPages(name, self._rows.get, self._files)
            root = pages.root()
            if root is not None:
                pages.run(check(root))
        except DataCorruptionError as error:
            self._report.damage("index", str(error), f"index {name!r}", _KEEP)
        except OSError as error:
            self._report.damage("index", f"it cannot be read: {error}", f"index {name!r}", _UNREADABLE)

    def _check_owner(self, layout: SegmentLayout) -> None:
        where = f"segment {layout.segment!r}"
        if layout.owner_epoch > self._state.epoch:
            self._report.damage(
                "owner epoch",
                f"its row is of container epoch {layout.owner_epoch}, the log's owner of {self._state.epoch}",
                where,
                "an older log was put back in place of a newer one: find the newer one",
            )
        try:
            facts = self._find(segment_id_of(layout.segment))
        except ValueError:
            self._report.damage("stored name", "its stored name ends with no segment id", where, _KEEP)
            return
        if facts is None:
            if self._inactive is not None:
                self._report.damage(
                    "unknown segment",
                    "storage holds a segment that neither log nor catalogue knows",
                    where,
                    "its chunks are never deleted by themselves; report it",
                )
        elif is_index(layout.segment):
            return
        elif layout.length > facts.durable_length:
            what = f"storage holds {layout.length} bytes, the segment has {facts.durable_length}"
            self._report.damage("stored length", what, where, _KEEP)
        elif layout.sealed and not facts.sealed:
            self._report.damage("stored seal", "sealed in storage, not in the log", where, _KEEP)
        elif facts.is_retired:
            return
        elif layout.sealed and layout.length < facts.durable_length:
            what = f"sealed in storage with {layout.length} of {facts.durable_length} bytes"
            self._report.damage("stored seal", what, where, _KEEP)
        elif layout.start_offset > facts.start_offset:
            what = f"storage holds it from {layout.start_offset} on, it begins at {facts.start_offset}"
            self._report.damage("stored start", what, where, _KEEP)

    def _find(self, segment_id: int) -> SegmentFacts | None:
        found = self._state.by_id.get(segment_id)
        if found is not None:
            is_retired = found.deleted or found.merged
            return SegmentFacts(
                found.start_offset, found.durable_length, found.sealed, is_retired, found.is_table
            )
        return None if self._inactive is None else self._inactive.get(segment_id)

    def _note_loss(
        self, layout: SegmentLayout, chunks: Sequence[tuple[Chunk, int]], missing: Sequence[int]
    ) -> None:
        """Note a segment whose chunks with these numbers have no object."""
        head = next((n for n, number in enumerate(missing) if n != number), len(missing))
        last, start = chunks[head - 1] if head else (None, 0)
        head_end = 0 if last is None else start + last.length
        try:
            facts = self._find(segment_id_of(layout.segment))
        except ValueError:
            return  # reported with the owner
        if facts is not None and not facts.is_retired and len(self._report.losses) < FINDINGS_MAX:
            self._report.losses.append(
                SegmentLoss(layout.segment, layout.length, head_end, len(missing) - head, facts.is_table)
            )

    def _check_chunk(self, layout: SegmentLayout, chunk: Chunk, start: int) -> bool:
        """Report what is wrong with a chunk; return whether it has an object."""
        report, path = self._report, self._files.path(chunk.name)
        report.chunks += 1
        report.chunk_bytes += chunk.length
        part = f"[{start}, {start + chunk.length}) of segment {layout.segment!r}"
        try:
            length = self._files.find_length(chunk.name, chunk.length)
        except OSError as error:
            self._add_fault(chunk, part, error)
            return True
        if length is None:
            report.damage("chunk", f"the chunk that holds {part} is missing", path, _RESTORE)
        elif length < chunk.length:
            what = f"the chunk that holds {part} has {length} bytes instead of {chunk.length}"
            report.damage("chunk", what, path, _RESTORE, f" at offset {length}")
        else:
            report.longer_chunks += length > chunk.length
            report.longer_bytes += length - chunk.length
            if self._deep:
                self._to_verify.append((chunk, part))
                if len(self._to_verify) == _VERIFIED_TOGETHER:
                    self._verify()
        return length is not None

    def _verify(self) -> None:
        """Verify what was noted for it, together: a store answers many requests at once."""
        noted, self._to_verify = self._to_verify, []
        verified = self._files.verify_all((chunk for chunk, _ in noted), self._rows.get)
        for (chunk, part), (_, error) in zip(noted, verified, strict=True):
            if error is None:
                self._report.verified_bytes += chunk.length
            else:
                self._add_fault(chunk, part, error)

    def _add_fault(self, chunk: Chunk, part: str, error: Exception) -> None:
        path = self._files.path(chunk.name)
        if isinstance(error, ChecksumMismatchError):
            what = f"a block of the chunk that holds {part} fails its checksum"
            self._report.damage("chunk", what, path, _RESTORE, f" at offset {error.offset}")
        elif isinstance(error, DataCorruptionError):
            what = f"checksums of the chunk that holds {part}: {error}"
            self._report.damage("checksums", what, path, _KEEP)
        else:
            what = f"the chunk that holds {part} cannot be read: {error}"
            self._report.damage("chunk", what, path, _UNREADABLE)

    def _check_garbage(self, key: str) -> None:
        try:
            data = self._rows[key]
            row = decode_garbage_row(data, key)
            name = row.first_chunk
            for _ in range(row.chunk_count):
                self._reached.add(name)
                _, name = load_chunk(name, self._rows.get)
        except DataCorruptionError as error:
            self._report.damage("row", str(error), f"row {key!r}", _KEEP)

    def _check_reached(self, key: str) -> None:
        if key.startswith(CHUNK_PREFIX):
            chunk = key[len(CHUNK_PREFIX) :]
        elif key.startswith(CHECKSUM_PREFIX):
            chunk = key[len(CHECKSUM_PREFIX) : -_GROUP_CHARS]
        else:
            return
        if chunk not in self._reached:
            self._report.damage(
                "unreached row", "no segment and no garbage batch leads to this row", f"row {key!r}", _KEEP
            )
