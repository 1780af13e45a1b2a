"""Rows of long-term storage in a table of the container, and those used last in memory.

Key and value of an entry are key and bytes of a row. A commit is one append to the table, so a former owner
can never make one. The table's bytes are stored like those of any segment; its own rows are in the log.

What is in memory is of one moment, also while a commit is in flight: its keys are as before until it has
ended, and those of them that are not in memory cannot be loaded before.
"""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, Final

from headrace.errors import (
    ClosedError,
    ContainerOfflineError,
    CorruptionError,
    StorageReadError,
    ThrottledError,
    WalWriteError,
)
from headrace.runtime.loop_budget import LoopBudget
from headrace.segmentstore.state.segment_state import SegmentState
from headrace.segmentstore.tables.tables import ContainerTables
from headrace.storage.metadata.contract import RowsNotLoadedError

_LOADED_AT_ONCE: Final = 64
"""Rows of one read of the table."""

_ROWS_MIN: Final = 256
"""Rows used last that are in memory whatever their size: more than one decision needs."""

_ROW_OVERHEAD: Final = 200
"""Memory of a row besides its bytes."""

_LOOKED_UP_AT_ONCE: Final = 1000

Spawn = Callable[[str, Coroutine[Any, Any, None]], object]


class TableRowStore:
    """Rows in the table ``name``. Used on the container's loop.

    Args:
        tables: has the table.
        name: of the table.
        spawn: starts a task that ends with the container; raises ClosedError once that ends.
        cache_bytes: bound of the memory that rows take.
    """

    def __init__(self, tables: ContainerTables, name: str, spawn: Spawn, cache_bytes: int) -> None:
        self.name = name
        self._tables = tables
        self._spawn = spawn
        self._cache_bytes = cache_bytes
        self._segment: SegmentState | None = None
        self._rows: OrderedDict[str, bytes | None] = OrderedDict()
        """Used last; None for those that do not exist."""
        self._size_bytes = 0
        self._changing: Counter[str] = Counter()
        """Keys of the commits in flight."""
        self._loads: dict[object, set[str]] = {}
        """Loads in flight, each with the keys of commits that began meanwhile."""
        self._ended: asyncio.Future[None] | None = None
        """Done when the next commit in flight has ended."""
        self.loaded = 0

    def __len__(self) -> int:
        """Return the number of rows in memory."""
        return len(self._rows)

    def open(self, segment: SegmentState) -> None:
        """Use that table, which is pinned from now on."""
        segment.pin()
        self._segment = segment

    # -------------------------------------------------------------------------------------- reading

    def get(self, key: str) -> bytes | None:
        """See :meth:`RowStore.get`."""
        if key in self._rows:
            self._rows.move_to_end(key)
            return self._rows[key]
        segment = self._segment
        if (
            key not in self._changing
            and segment is not None
            and self._tables.contains_nowait(segment, key.encode()) is False
        ):
            return None
        raise RowsNotLoadedError((key,))

    async def load(self, keys: Sequence[str]) -> None:
        """See :meth:`RowStore.load`."""
        for begin in range(0, len(keys), _LOADED_AT_ONCE):
            await self._load([key for key in keys[begin : begin + _LOADED_AT_ONCE] if key not in self._rows])

    async def _load(self, keys: list[str]) -> None:
        while keys:
            if not self._changing.keys().isdisjoint(keys):
                await self._wait_ended()
                keys = [key for key in keys if key not in self._rows]
                continue
            load = object()
            stale = self._loads[load] = set()
            try:
                entries = await self._read(keys)
            finally:
                del self._loads[load]
            self.loaded += len(keys)
            for key, row in zip(keys, entries, strict=True):
                if key not in stale:
                    self._put(key, row)
            keys = [key for key in keys if key in stale]

    async def _read(self, keys: Sequence[str]) -> list[bytes | None]:
        try:
            entries = await self._tables.get(self.name, [key.encode() for key in keys])
        except CorruptionError as error:
            raise as_unreadable(error) from error
        return [None if entry is None else entry.value for entry in entries]

    async def find_existing(self, keys: Sequence[str]) -> set[str]:
        """See :meth:`RowStore.find_existing`."""
        found: set[str] = set()
        unknown: list[str] = []
        budget = LoopBudget(_LOOKED_UP_AT_ONCE)
        segment = self._segment
        assert segment is not None
        for begin in range(0, len(keys), _LOADED_AT_ONCE):
            some = keys[begin : begin + _LOADED_AT_ONCE]
            await budget.spend(len(some))
            try:
                await self._tables.load(self.name, [key.encode() for key in some])
            except CorruptionError as error:
                raise as_unreadable(error) from error
            for key in some:
                exists = self._tables.contains_nowait(segment, key.encode())
                if exists is None:
                    unknown.append(key)
                elif exists:
                    found.add(key)
        for begin in range(0, len(unknown), _LOADED_AT_ONCE):
            some = unknown[begin : begin + _LOADED_AT_ONCE]
            rows = await self._read(some)
            found.update(key for key, row in zip(some, rows, strict=True) if row is not None)
        return found

    def _put(self, key: str, row: bytes | None) -> None:
        rows = self._rows
        self._drop(key)
        rows[key] = row
        self._size_bytes += len(row or b"") + len(key) + _ROW_OVERHEAD
        while self._size_bytes > self._cache_bytes and len(rows) > _ROWS_MIN:
            self._drop(next(iter(rows)))

    def _drop(self, key: str) -> None:
        if key in self._rows:
            self._size_bytes -= len(self._rows.pop(key) or b"") + len(key) + _ROW_OVERHEAD

    # -------------------------------------------------------------------------------------- committing

    async def commit(self, changes: Mapping[str, bytes | None]) -> None:
        """See :meth:`RowStore.commit`. One whose caller is cancelled goes on."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        done.add_done_callback(lambda future: future.cancelled() or future.exception())
        changes = dict(changes)
        self._changing.update(changes.keys())
        for stale in self._loads.values():
            stale.update(changes)
        try:
            self._spawn("commit of storage rows", self._commit(changes, done))
        except ClosedError as error:
            self._end(changes, is_done=False)
            raise ContainerOfflineError("the container has stopped") from error
        await asyncio.shield(done)

    async def _commit(self, changes: Mapping[str, bytes | None], done: asyncio.Future[None]) -> None:
        failure: BaseException | None = None
        try:
            await self._open()
            data = {key.encode(): row for key, row in changes.items()}
            await self._tables.change(self.name, data)
        except asyncio.CancelledError:
            failure = WalWriteError("the container stops: whether rows of storage were committed is unknown")
            raise
        except Exception as error:  # noqa: BLE001 - it is the caller's
            failure = error
        finally:
            self._end(changes, is_done=failure is None)
            if not done.done():
                if failure is None:
                    done.set_result(None)
                else:
                    done.set_exception(failure)

    async def _open(self) -> None:
        """Open the table. Raises: ThrottledError: that is not possible now, and nothing was done."""
        assert self._segment is not None
        if not self._tables.is_open(self._segment):
            try:
                await self._read([self.name])
            except StorageReadError as error:
                raise ThrottledError(f"rows of storage cannot be committed now: {error}") from error

    def _end(self, changes: Mapping[str, bytes | None], *, is_done: bool) -> None:
        """A commit has ended: now its rows are those to be read."""
        for key, row in changes.items():
            self._changing[key] -= 1
            if not self._changing[key]:
                del self._changing[key]
            if is_done and row is not None:
                self._put(key, row)
            else:
                self._drop(key)
        if self._ended is not None:
            ended, self._ended = self._ended, None
            ended.set_result(None)

    async def _wait_ended(self) -> None:
        if self._ended is None:
            self._ended = asyncio.get_running_loop().create_future()
        await asyncio.shield(self._ended)


def as_unreadable(error: CorruptionError) -> StorageReadError:
    """A damaged object is repaired, or not: the log retains what cannot be stored until then."""
    return StorageReadError(f"the table of storage's rows is damaged: {error}")
