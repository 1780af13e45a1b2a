"""The tables of one container whose index is in memory: opened on first use, forgotten to free memory."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, ValuesView

from headrace.errors import HeadraceError, InvalidArgumentError, SegmentTruncatedError
from headrace.segmentstore.contract import SegmentAccess
from headrace.segmentstore.segment_names import is_internal
from headrace.segmentstore.state.segment_state import SegmentState
from headrace.segmentstore.tables.config import TablesConfig
from headrace.segmentstore.tables.open_table import OpenTable
from headrace.segmentstore.tables.request_limits import key_length_of
from headrace.segmentstore.tables.table_index import TableIndex
from headrace.segmentstore.tables.table_log import scan_log
from headrace.segmentstore.tables.table_state import TableState


class OpenTables:
    """Finds, opens and forgets tables. ``on_opened`` is called with each table that was opened."""

    def __init__(
        self,
        access: SegmentAccess,
        config: TablesConfig,
        on_opened: Callable[[OpenTable], None],
    ) -> None:
        self._access = access
        self._config = config
        self._on_opened = on_opened
        self._tables: OrderedDict[str, OpenTable] = OrderedDict()
        """Least recently used first."""
        self._opening: dict[str, tuple[SegmentState, asyncio.Future[None]]] = {}
        self._retired: dict[str, list[OpenTable]] = {}
        """Tables no longer used with appends in flight; their successor waits for these."""
        self.opened_count = 0

    def values(self) -> ValuesView[OpenTable]:
        return self._tables.values()

    async def get_segment(self, name: str) -> SegmentState:
        """Return the segment of a table.

        Raises:
            NoSuchSegmentError: there is none.
            InvalidArgumentError: the segment is not a table.
        """
        segment = await self._access.resolve(name)
        if not segment.is_table:
            raise InvalidArgumentError(f"segment {name!r} is not a table")
        return segment

    async def get(self, name: str) -> OpenTable:
        """Return the table, with everything durable applied; its index is rebuilt if it is not in memory."""
        return self.find(name) or await self._open(name)

    def find_nowait(self, segment: SegmentState) -> OpenTable | None:
        """Return the table of a segment if it is in memory, with everything durable applied."""
        table = self.find(segment.name)
        return table if table is not None and table.segment is segment else None

    def is_idle(self, segment: SegmentState) -> bool:
        """Whether nothing uses a table: it is not open, or nothing but its index is left."""
        name = segment.name
        if name in self._opening or any(not table.is_drained for table in self._retired.get(name, ())):
            return False
        table = self._tables.get(name)
        return table is None or table.is_idle

    def drop_evicted(self, segment: SegmentState) -> None:
        """``segment`` was evicted: forget its table, but not one that was opened since."""
        table = self._tables.get(segment.name)
        if table is not None and table.segment is segment:
            self.drop(segment.name)

    def drop(self, name: str) -> None:
        """Forget a table. It is opened again when next used."""
        table = self._tables.pop(name, None)
        if table is None:
            return
        table.retired = True
        if self._retired:
            self._retired = {
                other: left
                for other, tables in self._retired.items()
                if (left := [retired for retired in tables if not retired.is_drained])
            }
        if not table.is_drained:
            self._retired.setdefault(name, []).append(table)

    def drop_all(self) -> None:
        for name in list(self._tables):
            self.drop(name)

    def trim(self) -> None:
        """Forget indexes of idle tables, least recently used first, until the rest fits; the last used one
        stays. Those of pinned segments stay as well, and do not count.
        """
        total = sum(
            table.state.index.memory_bytes for table in self._tables.values() if not table.segment.pinned
        )
        for name in list(self._tables)[:-1]:
            if total <= self._config.index_bytes_max:
                return
            table = self._tables[name]
            if table.is_idle and not table.segment.pinned:
                total -= table.state.index.memory_bytes
                self.drop(name)

    def find(self, name: str) -> OpenTable | None:
        """Return the table of that name if its index is in memory, with everything durable applied."""
        table = self._tables.get(name)
        if table is None or table.retired or self._access.find_segment(name) is not table.segment:
            return None
        if table.segment.accepted_length > table.state.tail:
            return None  # bytes that this table did not append: read them
        self._tables.move_to_end(name)
        table.settle()
        return table

    async def _open(self, name: str) -> OpenTable:
        while True:
            table = self.find(name)
            if table is not None:
                return table
            segment = await self.get_segment(name)
            if name in self._opening:
                opening, opened = self._opening[name]
                try:
                    await asyncio.shield(opened)
                except HeadraceError:
                    if opening is segment:
                        raise
                    # It was that of a table which had the name before.
                continue
            self.drop(name)
            opened = asyncio.get_running_loop().create_future()
            self._opening[name] = segment, opened
            try:
                for retired in self._retired.get(name, ()):
                    await retired.wait_drained()
                self._retired.pop(name, None)  # not before: after a cancellation the next caller has to wait
                table = await self._load(segment)
                self._tables[name] = table
                self.trim()
                self._on_opened(table)
            except Exception as error:
                opened.set_exception(error)  # for all that wait: each would only read the same log again
                opened.exception()  # it is retrieved, even if no caller waits
                raise
            finally:
                del self._opening[name]
                if not opened.done():  # opened, or cancelled: then another caller that waits opens it
                    opened.set_result(None)

    async def _load(self, segment: SegmentState) -> OpenTable:
        """Rebuild the index of a table from its log. Nothing is appended meanwhile: all requests wait."""
        index, tail = await self._replay(segment)
        self.opened_count += 1
        return OpenTable(
            self._access,
            segment,
            TableState(segment.name, index, tail),
            key_length=key_length_of(segment),
        )

    async def _replay(self, segment: SegmentState) -> tuple[TableIndex, int]:
        """Return the index of what is in the log, and the log's end."""
        while True:
            start = segment.accepted_start_offset
            try:
                return await self._replay_from(segment, start)
            except SegmentTruncatedError:
                # The compaction of a retired table may have been truncating already, each of them once. What
                # superseded the entries replayed so far may be gone: begin anew, behind the truncation.
                if segment.accepted_start_offset == start:
                    raise

    async def _replay_from(self, segment: SegmentState, at: int) -> tuple[TableIndex, int]:
        index = TableIndex(compact=is_internal(segment.name))  # clients cannot iterate over these
        while at < segment.accepted_length:
            # What was accepted before will become durable, or the container ends: wait for it.
            end = segment.accepted_length
            async for entries, _ in scan_log(self._access, segment, at, end, wait=True):
                index.replay(entries, segment.name)
            at = end
        return index, at

    def check(self) -> None:
        """Assert the invariants of every open table. Touches every key."""
        for name, table in self._tables.items():
            assert table.segment.name == name
            table.state.check()
