"""The tables of one container that are in use: opened on first use, forgotten to free memory.

Opening a table costs the part of its log behind the end of its index. If that is longer than an owner leaves
it, because there is no index yet, index rounds keep memory bounded while it is read.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, ValuesView

from headrace.errors import (
    DataCorruptionError,
    HeadraceError,
    InvalidArgumentError,
    SegmentTruncatedError,
    StorageWriteError,
    ThrottledError,
)
from headrace.model.attributes import TABLE_HASH_SEED
from headrace.segmentstore.contract import ContainerSegments
from headrace.segmentstore.segment_names import is_internal
from headrace.segmentstore.state.segment_state import SegmentState
from headrace.segmentstore.tables.config import TablesConfig
from headrace.segmentstore.tables.index_access import TableIndex, TableIndexes
from headrace.segmentstore.tables.index_note import decode_note
from headrace.segmentstore.tables.index_write import write_index
from headrace.segmentstore.tables.log import scan_log
from headrace.segmentstore.tables.log_replay import replay_entries
from headrace.segmentstore.tables.open_table import OpenTable
from headrace.segmentstore.tables.request_limits import key_length_of
from headrace.segmentstore.tables.tree_keys import TreeKeys
from headrace.segmentstore.tables.unindexed import UnindexedEntries


class OpenTables:
    """Finds, opens and forgets tables. ``on_opened`` is called with each table that was opened."""

    def __init__(
        self,
        access: ContainerSegments,
        indexes: TableIndexes,
        config: TablesConfig,
        on_opened: Callable[[OpenTable], None],
    ) -> None:
        self._access = access
        self._indexes = indexes
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
        """Return the table, with everything durable applied; it is opened if it is not in memory."""
        return self.find(name) or await self._open(name)

    def find_nowait(self, segment: SegmentState) -> OpenTable | None:
        """Return the table of a segment if it is in memory, with everything durable applied."""
        table = self.find(segment.name)
        return table if table is not None and table.segment is segment else None

    def is_idle(self, segment: SegmentState) -> bool:
        """Whether nothing uses a table: it is not open, or only remembered."""
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
        """Forget idle tables, least recently used first, until the rest fits; the last used one stays. Those
        of pinned segments stay as well, and do not count.
        """
        total = sum(table.state.memory_bytes for table in self._tables.values() if not table.segment.pinned)
        for name in list(self._tables)[:-1]:
            if total <= self._config.index_bytes_max:
                return
            table = self._tables[name]
            if table.is_idle and not table.segment.pinned:
                total -= table.state.memory_bytes
                self.drop(name)

    def find(self, name: str) -> OpenTable | None:
        """Return the table of that name if it is open, with everything durable applied."""
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
        """Open a table by its index and the log behind it. Nothing is appended meanwhile: requests wait."""
        key_length = key_length_of(segment)
        tree_keys = TreeKeys(key_length, max(0, segment.attribute(TABLE_HASH_SEED)))
        index = self._indexes.get(segment, tree_keys.key_bytes)
        unindexed, tail = await self._replay(segment, index, tree_keys)
        self.opened_count += 1
        return OpenTable(self._access, segment, index, unindexed, tail, tree_keys)

    async def _replay(
        self, segment: SegmentState, index: TableIndex, tree_keys: TreeKeys
    ) -> tuple[UnindexedEntries, int]:
        """Return what is in the log behind the end of the index, and the log's end."""
        while True:
            with segment.held():
                root = await index.open()
            note = decode_note(root.note, segment.name)
            start = segment.accepted_start_offset
            at = start if note is None else note.index_end
            if not start <= at <= segment.accepted_length:
                raise DataCorruptionError(
                    f"the index ends at {at}, the log is [{start}, {segment.accepted_length})",
                    path=segment.name,
                )
            try:
                return await self._replay_from(segment, index, tree_keys, at)
            except SegmentTruncatedError:
                # What superseded the entries replayed so far may be gone: begin anew, behind the truncation.
                if segment.accepted_start_offset == start:
                    raise

    async def _replay_from(
        self, segment: SegmentState, index: TableIndex, tree_keys: TreeKeys, at: int
    ) -> tuple[UnindexedEntries, int]:
        unindexed = UnindexedEntries()
        begin = indexed_end = at
        while at < segment.accepted_length:
            # What was accepted before will become durable, or the container ends: wait for it.
            end = segment.accepted_length
            async for entries, _ in scan_log(self._access, segment, at, end, wait=True):
                root = index.root
                remember = root is None or root.page is not None
                replay_entries(entries, unindexed, tree_keys, segment.name, remember=remember)
                at = entries[-1][1]
                indexed = 0 if root is None else root.entries
                if (
                    self._config.unindexed.is_exceeded(len(unindexed), at - indexed_end, indexed)
                    and (unindexed or root is None or root.note)
                    and not is_internal(segment.name)  # see TableIndexer.is_exceeded
                ):
                    try:
                        with segment.held():
                            await write_index(index, unindexed, begin, at, segment.name)
                    except StorageWriteError as error:
                        raise ThrottledError(
                            f"table {segment.name!r} cannot be opened before long-term storage takes its"
                            f" index ({error}): nothing was done, send again"
                        ) from error
                    indexed_end, unindexed = at, UnindexedEntries()
        return unindexed, at

    def check(self) -> None:
        """Assert the invariants of every open table. Touches every key."""
        for name, table in self._tables.items():
            assert table.segment.name == name
            table.state.check()
