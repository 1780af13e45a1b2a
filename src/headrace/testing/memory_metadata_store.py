"""A metadata store for controllers whose rows die with the process."""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Sequence
from dataclasses import dataclass, field

from headrace.controller.store.contract import ABSENT, ANY, Page, Row, Write
from headrace.errors import MetadataConflictError, NoSuchTableError, TableNotEmptyError


@dataclass(slots=True)
class _Table:
    rows: dict[bytes, Row] = field(default_factory=dict)
    sorted_keys: list[bytes] = field(default_factory=list)
    version: int = 0


class MemoryStore:
    """All tables in dictionaries. Iterates in key order; a token is the last key seen."""

    def __init__(self) -> None:
        self._tables: dict[str, _Table] = {}

    async def create_table(self, table: str) -> None:
        self._tables.setdefault(table, _Table())

    async def delete_table(self, table: str, *, must_be_empty: bool = False) -> None:
        found = self._tables.get(table)
        if found is None:
            return
        if must_be_empty and found.rows:
            raise TableNotEmptyError(table)
        del self._tables[table]

    async def get(self, table: str, key: bytes) -> Row | None:
        row = self._table(table).rows.get(key)
        return None if row is None else Row(row.value, row.version)

    async def get_many(self, table: str, keys: Sequence[bytes]) -> list[Row | None]:
        rows = self._table(table).rows
        found = [rows.get(key) for key in keys]
        return [None if row is None else Row(row.value, row.version) for row in found]

    async def update(self, table: str, writes: Sequence[Write]) -> list[int]:
        assert len({write.key for write in writes}) == len(writes) > 0
        into = self._table(table)
        for write in writes:
            if write.expected != ANY:
                present = into.rows.get(write.key)
                actual = ABSENT if present is None else present.version
                if actual != write.expected:
                    raise MetadataConflictError(
                        f"{table}: row {write.key!r} has version {actual}, not {write.expected}"
                    )
        return [self._apply(into, write) for write in writes]

    async def scan(self, table: str, token: bytes, count: int) -> Page:
        from_table = self._table(table)
        start = bisect_right(from_table.sorted_keys, token) if token else 0
        keys = from_table.sorted_keys[start : start + count]
        rows = [(key, Row(row.value, row.version)) for key in keys for row in (from_table.rows[key],)]
        return Page(rows, keys[-1] if keys else token)

    def check(self) -> None:
        """Assert that the sorted keys are the keys and that no version is from the future."""
        for table in self._tables.values():
            assert table.sorted_keys == sorted(table.rows)
            assert all(0 < row.version <= table.version for row in table.rows.values())

    def _table(self, table: str) -> _Table:
        found = self._tables.get(table)
        if found is None:
            raise NoSuchTableError(f"table {table!r} does not exist")
        return found

    @staticmethod
    def _apply(table: _Table, write: Write) -> int:
        table.version += 1
        if write.value is None:
            if table.rows.pop(write.key, None) is not None:
                del table.sorted_keys[bisect_right(table.sorted_keys, write.key) - 1]
        else:
            assert write.value
            if write.key not in table.rows:
                insort(table.sorted_keys, write.key)
            table.rows[write.key] = Row(write.value, table.version)
        return table.version
