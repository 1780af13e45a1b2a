"""A row store for segment storage whose rows die with the process."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from headrace.storage.metadata.contract import RowsNotLoadedError
from headrace.storage.metadata.rows import INCARNATION_KEY, NUMBERS_KEY


class MemoryRowStore:
    """A dict. ``rows`` is open to tests that damage it.

    While it ``forgets``, a row is in memory for the few loads after its own.
    """

    def __init__(self, rows: Mapping[str, bytes] | None = None, *, forgets: bool = False) -> None:
        self.rows: dict[str, bytes] = dict(rows or {})
        self.forgets = forgets
        self._loaded: dict[str, None] = {}

    def get(self, key: str) -> bytes | None:
        if self.forgets and key not in self._loaded and key not in {INCARNATION_KEY, NUMBERS_KEY}:
            raise RowsNotLoadedError([key])
        return self.rows.get(key)

    def keys(self, prefix: str) -> list[str]:
        return sorted(key for key in self.rows if key.startswith(prefix))

    async def load(self, keys: Sequence[str]) -> None:
        if self.forgets:
            await asyncio.sleep(0)
            for key in keys:
                self._loaded.pop(key, None)
                self._loaded[key] = None
            for key in list(self._loaded)[: -max(80, len(keys))]:
                del self._loaded[key]

    async def find_existing(self, keys: Sequence[str]) -> set[str]:
        return self.rows.keys() & set(keys)

    def part_of(self, _: Mapping[str, bytes | None]) -> str:
        return ""

    async def commit(self, changes: Mapping[str, bytes | None]) -> None:
        for key, row in changes.items():
            if row is None:
                self.rows.pop(key, None)
            else:
                self.rows[key] = bytes(row)
