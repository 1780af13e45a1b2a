"""Remembers the highest segment number of deleted streams and tables for later ones of the same names."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.controller.store.contract import MetadataStore, Write
from headrace.controller.store.layout import DELETED, deleted_key
from headrace.controller.store.rows.number_row import DeletedRow, decode_deleted, encode_deleted

#: A request about a deleted stream cannot be this late.
REMEMBERED_MS = 30 * 86_400_000


class Numbering:
    """First and last segment numbers by kind (a key of ``store.layout``), scope and name."""

    def __init__(self, store: MetadataStore) -> None:
        self._store = store

    async def first_numbers(self, kind: bytes, scope: str, names: Sequence[str]) -> list[int]:
        """Return the number at which the segments of each new stream or table begin."""
        rows = await self._store.get_many(DELETED, [deleted_key(kind, scope, name) for name in names])
        return [0 if row is None else decode_deleted(row.value).highest_number + 1 for row in rows]

    async def remember(self, kind: bytes, scope: str, highest: dict[str, int], now_ms: int) -> None:
        """Note the highest numbers of what is about to be deleted, by name. Numbers only grow."""
        firsts = await self.first_numbers(kind, scope, list(highest))
        writes = [
            Write(deleted_key(kind, scope, name), encode_deleted(DeletedRow(max(number, first - 1), now_ms)))
            for (name, number), first in zip(highest.items(), firsts, strict=True)
        ]
        await self._store.update(DELETED, writes)

    async def sweep(self, now_ms: int) -> int:
        """Forget what was deleted long ago; return how many."""
        token, swept = b"", 0
        while (page := await self._store.scan(DELETED, token, 1000)).rows:
            old = [
                Write(key, None, row.version)
                for key, row in page.rows
                if decode_deleted(row.value).deleted_ms + REMEMBERED_MS < now_ms
            ]
            if old:
                await self._store.update(DELETED, old)
                swept += len(old)
            token = page.token
        return swept
