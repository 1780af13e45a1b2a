"""When the log of a table is worth compacting, and which entries of its oldest part still count.

Compaction moves the newest entries of keys found in the oldest part of the log to its end, with the
versions they have, and then truncates the log behind them. The two steps need no mark between them: the log
is replayed in the order of its offsets, so after a crash between them the moved entries simply supersede
themselves, and the next round finds the oldest part dead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import NamedTuple

from headrace.model.tables import TableEntry
from headrace.segmentstore.tables.entry_format import ENTRY_HEADER_BYTES, REMOVAL, LoggedEntry
from headrace.segmentstore.tables.locations import REMOVED, location_offset
from headrace.segmentstore.tables.state import TableState


def is_compaction_due(
    log_bytes: int, live_bytes: int, *, dead_bytes_min: int, utilization_percent_min: int
) -> bool:
    """Whether enough of the log is dead, both in bytes and as a share."""
    return log_bytes - live_bytes > dead_bytes_min and live_bytes * 100 < log_bytes * utilization_percent_min


class Candidate(NamedTuple):
    """An entry of the oldest part that may have to move."""

    offset: int
    tree_key: bytes
    entry: TableEntry

    @property
    def size_bytes(self) -> int:
        """Of the entry as it is logged."""
        return ENTRY_HEADER_BYTES + len(self.entry.key) + len(self.entry.value)


@dataclass(slots=True)
class CompactionPiece:
    """Candidates that move in one append. Each was the newest durable entry of its key when the log was
    durable up to ``known_end``.
    """

    known_end: int
    candidates: list[Candidate]

    @property
    def keys(self) -> list[bytes]:
        return [each.tree_key for each in self.candidates]

    def is_outdated(self, state: TableState) -> bool:
        """Whether what superseded a candidate may be in the index alone by now."""
        return state.index_end > self.known_end

    def renew(self, locations: Sequence[int], known_end: int) -> None:
        """Retain the candidates that are still where the keys have these durable locations now."""
        self.candidates = _find_newest(self.candidates, locations)
        self.known_end = known_end

    def survivors(self, state: TableState) -> list[Candidate]:
        """Return the candidates that must move now, of a piece that is not outdated.

        An entry that an update in flight supersedes does not move: the update is in the log before whatever
        is appended now, so before the truncation too.
        """
        return [each for each in self.candidates if not state.is_superseded(each.tree_key, each.offset)]


@dataclass(slots=True)
class CompactionRound:
    """The oldest part of a log, while it is read: ``[start, end)``, and entries in it that may have to
    move.
    """

    start: int
    bytes_max: int
    end: int = -1
    pieces: list[CompactionPiece] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.end = self.start

    @property
    def is_full(self) -> bool:
        return self.end - self.start >= self.bytes_max

    def read(
        self, entries: Iterable[LoggedEntry], data: bytes, tree_key_of: Callable[[bytes], bytes]
    ) -> list[Candidate]:
        """Take entries in, in log order, until the part is as long as it may be; return all puts."""
        puts: list[Candidate] = []
        for offset, end, key, value_length, version, value_at in entries:
            if self.is_full:
                break
            self.end = end
            if value_length != REMOVAL:
                value = data[value_at : value_at + value_length]
                puts.append(Candidate(offset, tree_key_of(key), TableEntry(key, value, version)))
        return puts

    def retain(
        self, puts: Sequence[Candidate], locations: Sequence[int], known_end: int, bytes_max: int
    ) -> None:
        """Take those puts as candidates whose keys have these locations, in a log that is durable up to
        ``known_end``: in pieces of at most so many bytes, but one entry, each in the order of versions.
        """
        candidates = _find_newest(puts, locations)
        candidates.sort(key=attrgetter("entry.version"))
        size = bytes_max + 1
        for each in candidates:
            size += each.size_bytes
            if size > bytes_max:
                self.pieces.append(CompactionPiece(known_end, []))
                size = each.size_bytes
            self.pieces[-1].candidates.append(each)


def _find_newest(puts: Sequence[Candidate], locations: Sequence[int]) -> list[Candidate]:
    return [
        put
        for put, location in zip(puts, locations, strict=True)
        if location != REMOVED and location_offset(location) == put.offset
    ]
