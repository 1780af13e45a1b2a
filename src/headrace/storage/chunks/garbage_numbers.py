"""Numbers of garbage batches: how the rows of all batches are found again, which cannot be listed.

One row says between which numbers they all are. It is raised by many at a time, before any of these is used.
"""

from __future__ import annotations

import asyncio
from typing import Final

from headrace.storage.chunks.garbage import GarbageQueue
from headrace.storage.metadata.contract import RowStore
from headrace.storage.metadata.rows import (
    NUMBERS_KEY,
    GarbageNumbersRow,
    decode_numbers_row,
    encode_numbers_row,
)

NUMBERS_AT_ONCE: Final = 256
"""The next owner looks for as many rows that may not exist."""


class GarbageNumbers:
    """The numbers of one garbage queue."""

    def __init__(self, rows: RowStore, garbage: GarbageQueue) -> None:
        self._rows = rows
        self._garbage = garbage
        self._end = -1
        """The first number that may not be used yet; -1 before :meth:`load`."""
        self._lock = asyncio.Lock()

    def load(self) -> None:
        """Let the queue read the rows of former owners. Raises: DataCorruptionError."""
        if self._end < 0:
            data = self._rows.get(NUMBERS_KEY)
            row = GarbageNumbersRow(0, 0) if data is None else decode_numbers_row(data)
            self._garbage.load(row.first, row.end, asyncio.get_running_loop().time())
            self._end = row.end

    async def reserve(self) -> None:
        """Make sure that the next number of the queue may be used, at once. Raises as ``RowStore.commit``."""
        self.load()
        if self._garbage.next_number < self._end:
            return
        async with self._lock:
            if self._garbage.next_number >= self._end:
                end = self._garbage.next_number + NUMBERS_AT_ONCE
                row = GarbageNumbersRow(self._garbage.first_number(), end)
                await self._rows.commit({NUMBERS_KEY: encode_numbers_row(row)})
                self._end = end
