"""When the log of a table is worth compacting, and which entries of its oldest part still count.

Compaction moves the newest entries of keys found in the oldest part of the log to its end, with the
versions they have, and then truncates the log behind them. The two steps need no mark between them: the log
is replayed in the order of its offsets, so after a crash between them the moved entries simply supersede
themselves, and the next round finds the oldest part dead.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from headrace.model.tables import TableEntry
from headrace.segmentstore.tables.entry_format import REMOVAL, LoggedEntry
from headrace.segmentstore.tables.table_index import REMOVED, location_offset
from headrace.segmentstore.tables.table_state import TableState


def is_compaction_due(
    log_bytes: int, live_bytes: int, *, dead_bytes_min: int, utilization_percent_min: int
) -> bool:
    """Whether enough of the log is dead, both in bytes and as a share."""
    return log_bytes - live_bytes > dead_bytes_min and live_bytes * 100 < log_bytes * utilization_percent_min


@dataclass(slots=True)
class CompactionRound:
    """The oldest part of a log, while it is read: ``[start, end)``, and entries in it that may have to
    move.
    """

    start: int
    bytes_max: int
    end: int = -1
    candidates: list[tuple[int, TableEntry]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.end = self.start

    @property
    def is_full(self) -> bool:
        return self.end - self.start >= self.bytes_max

    def read(self, entries: Iterable[LoggedEntry], data: bytes, state: TableState) -> None:
        """Take entries in, in log order, until the part is as long as it may be."""
        for offset, end, key, value_length, version, value_at in entries:
            if self.is_full:
                return
            self.end = end
            if value_length == REMOVAL:
                continue
            location = state.index.find(key)
            if location != REMOVED and location_offset(location) == offset:
                value = data[value_at : value_at + value_length]
                self.candidates.append((offset, TableEntry(key, value, version)))

    def survivors(self, state: TableState) -> list[TableEntry]:
        """Return the entries that must move now, in the order of their versions.

        An entry that an update in flight supersedes does not move: the update is in the log before whatever
        is appended now, so before the truncation too.
        """
        alive = [
            entry
            for offset, entry in self.candidates
            if not state.is_touched(entry.key)
            and (location := state.index.find(entry.key)) != REMOVED
            and location_offset(location) == offset
        ]
        alive.sort(key=lambda entry: entry.version)
        return alive
