"""A row store for segment storage whose rows die with the process."""

from __future__ import annotations

from collections.abc import Mapping


class MemoryRowStore:
    """A dict. ``rows`` is open to tests that damage it."""

    def __init__(self, rows: Mapping[str, bytes] | None = None) -> None:
        self.rows: dict[str, bytes] = dict(rows or {})

    def get(self, key: str) -> bytes | None:
        return self.rows.get(key)

    def keys(self, prefix: str) -> list[str]:
        return sorted(key for key in self.rows if key.startswith(prefix))

    async def commit(self, changes: Mapping[str, bytes | None]) -> None:
        for key, row in changes.items():
            if row is None:
                self.rows.pop(key, None)
            else:
                self.rows[key] = bytes(row)
