"""The rows of long-term storage of one container: some in its log, the others in its table of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from headrace.segmentstore.container.rows.row_parts import are_in_log, is_in_log
from headrace.segmentstore.container.rows.storage_row_log import LogRowStore
from headrace.segmentstore.container.rows.table_rows import TableRowStore
from headrace.storage.metadata.rows import GARBAGE_PREFIX

_LOG, _TABLE = "log", "table"


class ContainerRows:
    """The RowStore of a container's storage. A garbage row may be in either part; numbers are unique."""

    def __init__(self, log: LogRowStore, table: TableRowStore) -> None:
        self._log = log
        self._table = table

    def get(self, key: str) -> bytes | None:
        """See :meth:`RowStore.get`."""
        if is_in_log(key):
            return self._log.get(key)
        if key.startswith(GARBAGE_PREFIX) and (row := self._log.get(key)) is not None:
            return row
        return self._table.get(key)

    async def load(self, keys: Sequence[str]) -> None:
        """See :meth:`RowStore.load`."""
        await self._table.load([key for key in keys if not is_in_log(key)])

    async def find_existing(self, keys: Sequence[str]) -> set[str]:
        """See :meth:`RowStore.find_existing`. Not for garbage rows."""
        found = {key for key in keys if self._log.get(key) is not None}
        return found | await self._table.find_existing([key for key in keys if not is_in_log(key)])

    def part_of(self, changes: Mapping[str, bytes | None]) -> str:
        """See :meth:`RowStore.part_of`."""
        return _LOG if are_in_log(changes) else _TABLE

    async def commit(self, changes: Mapping[str, bytes | None]) -> None:
        """See :meth:`RowStore.commit`."""
        if not changes:
            return
        await (self._log if are_in_log(changes) else self._table).commit(changes)
