"""What changed in a table since a position of its log, gathered while the log is read.

Source: protocol, "Table segments", ReadTableEntriesDelta.
"""

from __future__ import annotations

from collections.abc import Iterable

from headrace.errors import AnswerTooLargeError
from headrace.limits import TABLE_ITEM_BYTES
from headrace.model.tables import TableDelta, TableEntry
from headrace.segmentstore.tables.entry_format import REMOVAL, LoggedEntry


class DeltaWalk:
    """Keeps the newest entry per key of ``[start, end)`` until there are enough of them.

    Removals take a key out of the answer and are not visible in it. So an answer ends only where it has
    an entry: a client takes an empty one as the end.

    Copies that compaction made are entries like any, although a client may have had them at their former
    offset. To leave out versions below the client's position would be wrong for one that began behind a
    truncation: it has never seen those, and only the first answer asks it to clear its state.
    """

    def __init__(self, start: int, end: int, count_max: int, page_bytes_max: int, bytes_max: int) -> None:
        self.end = end
        self._position = start
        self._count_max = count_max
        self._page_bytes_max = page_bytes_max
        """An answer of more than one entry has no more than that."""
        self._bytes_max = bytes_max
        self._newest: dict[bytes, TableEntry] = {}
        self._bytes = 0

    def read(self, entries: Iterable[LoggedEntry], data: bytes) -> bool:
        """Take entries in, in log order; return whether the answer is complete.

        Raises:
            AnswerTooLargeError: one entry by itself.
        """
        newest = self._newest
        for _, end, key, value_length, version, value_at in entries:
            before = newest.get(key)
            size = self._bytes
            if before is not None:
                size -= TABLE_ITEM_BYTES + len(key) + len(before.value)
            if value_length != REMOVAL:
                size += TABLE_ITEM_BYTES + len(key) + value_length
                if size > self._page_bytes_max and newest:
                    return True
                if size > self._bytes_max:
                    raise AnswerTooLargeError(size, self._bytes_max)
            if before is not None:
                del newest[key]
            if value_length != REMOVAL:
                newest[key] = TableEntry(key, data[value_at : value_at + value_length], version)
            self._bytes = size
            self._position = end
            if newest and (len(newest) >= self._count_max or size >= self._page_bytes_max):
                return True
        return False

    def delta(self) -> TableDelta:
        return TableDelta(
            list(self._newest.values()),
            reached_end=self._position == self.end,
            last_position=self._position,
        )
