"""The names in storage of a container's segments: the active ones each time, of the others some."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Final

from headrace.errors import CorruptionError, InvalidArgumentError
from headrace.runtime.loop_budget import LoopBudget
from headrace.segmentstore.container.rows.table_rows import as_unreadable
from headrace.segmentstore.state.container_state import ContainerState
from headrace.segmentstore.tables.tables import ContainerTables
from headrace.storage.metadata.rows import SEGMENT_PREFIX

_STATES_AT_ONCE: Final = 1000
_ROWS_PER_ROUND: Final = 1024
"""Read from the table, which waits; a round is to end, however many there are."""
_PAGE_KEYS: Final = 256


class StoredNames:
    """Iterates again and again; what is left of the table of storage's rows comes in the next rounds."""

    def __init__(self, state: ContainerState, tables: ContainerTables, table: str) -> None:
        self._state = state
        self._tables = tables
        self._table = table
        self._token = b""

    async def next_round(self) -> AsyncIterator[str]:
        """Yield names, of segments that may be gone, and of indexes that may not exist.

        Raises:
            StorageReadError: the table cannot be read now.
        """
        budget = LoopBudget(_STATES_AT_ONCE)
        active: set[str] = set()
        for state in list(self._state.by_id.values()):
            await budget.spend()
            for name in (state.storage_name, state.index_storage_name):
                active.add(name)
                yield name
        for _ in range(_ROWS_PER_ROUND // _PAGE_KEYS):
            for key in await self._next_page():
                name = key.removeprefix(SEGMENT_PREFIX)
                if name != key and name not in active:
                    yield name
            if not self._token:
                break

    async def _next_page(self) -> list[str]:
        try:
            keys, self._token = await self._tables.keys(self._table, self._token, _PAGE_KEYS)
        except InvalidArgumentError:
            self._token = b""  # as of a table that was made anew
            return []
        except CorruptionError as error:
            raise as_unreadable(error) from error
        return [key.key.decode() for key in keys]
