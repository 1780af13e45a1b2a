"""The layouts that one owner caches: those used last; others are built from their rows again.

So are the indexes of their chunks, which may be long: a batch of rows in each iteration of the loop, for the
callers that need them. The segment may change in between: each batch is read for what it is then.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from headrace.errors import FencedOutError, InvalidArgumentError, NoSuchSegmentError
from headrace.storage.chunks.chunk_index import ChunkIndex, Neighbours
from headrace.storage.chunks.config import SegmentStorageConfig
from headrace.storage.chunks.read_plan import Locate
from headrace.storage.chunks.segment_layout import (
    Chunk,
    GetRow,
    SegmentLayout,
    load_chunk,
    load_layout,
)
from headrace.storage.chunks.segment_locks import SegmentLocks
from headrace.storage.metadata.contract import RowsNotLoadedError, RowStore, with_rows

_CHUNKS_MAX: Final = 64


class LayoutCache:
    """What the segments of one container look like, to the owner of ``container_epoch``. Used on its loop.

    Methods without a wait raise ``RowsNotLoadedError`` if a row they need is not in memory.
    """

    __slots__ = (
        "_batch_lock",
        "_chunks",
        "_config",
        "_container_epoch",
        "_frozen",
        "_get_row",
        "_indexes",
        "_layouts",
        "_load_rows",
        "_rows_left",
        "_walked",
        "_walks",
    )

    def __init__(self, rows: RowStore, container_epoch: int, config: SegmentStorageConfig) -> None:
        self._get_row: GetRow = rows.get
        self._load_rows = rows.load
        self._container_epoch = container_epoch
        self._config = config
        self._layouts: OrderedDict[str, SegmentLayout] = OrderedDict()
        self._indexes: dict[str, ChunkIndex] = {}
        """Of cached layouts, as far as they were needed: smaller than the rows they are made of."""

        self._walks = SegmentLocks()
        """Segments whose links a caller follows: one at a time; callers that wait use what it has found."""

        self._walked: dict[str, ChunkIndex] = {}
        """The indexes of these callers; that of a layout which was evicted meanwhile is not in the cache."""

        self._frozen: dict[str, asyncio.Future[None]] = {}
        """Segments whose links are being changed, and the end of that: until then they are not followed."""

        self._batch_lock = asyncio.Lock()
        """Held by the caller that reads rows in the next iteration of the loop: callers alternate."""

        self._rows_left = config.walk_rows_max
        """Rows that all callers together may still read in this iteration of the loop."""

        self._chunks: OrderedDict[str, Chunk] = OrderedDict()
        """Chunks read last. None of them is the last of its segment, so none ever changes."""

    def __len__(self) -> int:
        return len(self._layouts)

    async def find(self, segment: str) -> SegmentLayout | None:
        """Return the layout of a segment, as of now; None if storage has none.

        Raises:
            DataCorruptionError: its rows are damaged.
            StorageReadError: they cannot be read now; retry.
        """
        layout = self._layouts.get(segment)
        if layout is not None:
            self._layouts.move_to_end(segment)
            return layout
        return await with_rows(self._load_rows, lambda: self.find_nowait(segment))

    def find_nowait(self, segment: str) -> SegmentLayout | None:
        """As :meth:`find`."""
        layout = self._layouts.get(segment)
        if layout is not None:
            self._layouts.move_to_end(segment)
            return layout
        layout = load_layout(segment, self._get_row)
        if layout is not None:
            self.put(layout)
        return layout

    async def get(self, segment: str) -> SegmentLayout:
        """Return the layout of a segment. Raises: as :meth:`find`, NoSuchSegmentError."""
        layout = await self.find(segment)
        if layout is None:
            raise NoSuchSegmentError(segment)
        return layout

    def get_nowait(self, segment: str) -> SegmentLayout:
        """As :meth:`get`."""
        layout = self.find_nowait(segment)
        if layout is None:
            raise NoSuchSegmentError(segment)
        return layout

    async def get_owned(self, segment: str) -> SegmentLayout:
        """Return a layout that is to be changed. Raises: as :meth:`get`, FencedOutError."""
        layout = await self.get(segment)
        self.check_owner(layout)
        return layout

    def check_owner(self, layout: SegmentLayout) -> None:
        """Refuse what a newer owner has taken. Raises: FencedOutError."""
        if layout.owner_epoch > self._container_epoch:
            raise FencedOutError(
                f"segment {layout.segment!r} belongs to container epoch {layout.owner_epoch}, "
                f"this owner has {self._container_epoch}"
            )

    def new(self, segment: str, rollover_bytes: int) -> SegmentLayout:
        """Return the layout of a segment without a byte; it is not cached. Raises: InvalidArgumentError."""
        if rollover_bytes < 0:
            raise InvalidArgumentError(f"rollover size {rollover_bytes} is negative")
        size = min(rollover_bytes or self._config.rollover_bytes, self._config.rollover_bytes)
        return SegmentLayout(segment, self._container_epoch, max(size, self._config.block_bytes))

    async def reach(self, segment: str, begin: int, end: int) -> tuple[SegmentLayout, ChunkIndex]:
        """Return a segment, and an index that knows the chunks of ``[begin, end)``, except for its last one.

        Both are true until the caller waits for anything.

        Raises:
            NoSuchSegmentError: there is none, or not any more.
            DataCorruptionError: a row is damaged or missing, or they contradict each other.
            StorageReadError: a row cannot be read now; retry.
        """
        try:
            found = self.reach_at_once(segment, begin, end)
        except RowsNotLoadedError:
            found = None
        if found is not None:
            return found
        async with self._walks.hold(segment):
            index = self._walked[segment] = self._find_index(await self.get(segment))
            try:
                return await self._walk(segment, index, begin, end), index
            finally:
                del self._walked[segment]

    async def _walk(self, segment: str, index: ChunkIndex, begin: int, end: int) -> SegmentLayout:
        """Follow the links of a segment as far as :meth:`reach` needs; return its layout."""
        while True:
            while (frozen := self._frozen.get(segment)) is not None:
                await asyncio.shield(frozen)
            try:
                async with self._batch_lock:
                    await asyncio.sleep(0)
                    layout = self.get_nowait(segment)
                    if self._extend(index, layout, begin, end):
                        return layout
            except RowsNotLoadedError as missing:
                await self._load_rows(missing.keys)

    def reach_at_once(self, segment: str, begin: int, end: int) -> tuple[SegmentLayout, ChunkIndex] | None:
        """As :meth:`reach`, if that takes no waiting."""
        layout = self.get_nowait(segment)
        index = self._find_index(layout)
        return (layout, index) if self._extend(index, layout, begin, end) else None

    def _extend(self, index: ChunkIndex, layout: SegmentLayout, begin: int, end: int) -> bool:
        """Go on with the rows that are left to this iteration of the loop; say whether that was enough."""
        if layout.segment in self._frozen:
            return index.extend(layout, begin, end, self._get_row, 0) >= 0
        left = index.extend(layout, begin, end, self._get_row, self._rows_left)
        if left != self._rows_left:
            if self._rows_left == self._config.walk_rows_max:
                asyncio.get_running_loop().call_soon(self._on_iteration)
            self._rows_left = max(0, left)
        return left >= 0

    def _on_iteration(self) -> None:
        self._rows_left = self._config.walk_rows_max

    def _find_index(self, layout: SegmentLayout) -> ChunkIndex:
        index = self._indexes.get(layout.segment)
        if index is None:
            index = self._indexes[layout.segment] = ChunkIndex()
        return index

    def locator(self, layout: SegmentLayout, index: ChunkIndex) -> Locate:
        """Return what finds the chunks of a segment by offset, as far as ``index`` reaches."""
        last, last_start = layout.last, layout.last_start

        def locate(offset: int) -> tuple[Chunk, int]:
            if last is not None and offset >= last_start:
                return last, last_start
            _, name, start = index.find(offset)
            return self._find_chunk(name), start

        return locate

    def _find_chunk(self, name: str) -> Chunk:
        chunk = self._chunks.get(name)
        if chunk is not None:
            self._chunks.move_to_end(name)
            return chunk
        chunk, _ = load_chunk(name, self._get_row)
        self._chunks[name] = chunk
        if len(self._chunks) > _CHUNKS_MAX:
            self._chunks.popitem(last=False)
        return chunk

    def put(self, layout: SegmentLayout) -> None:
        """Set the layout of a segment; the one used longest ago may be evicted for it."""
        self._layouts[layout.segment] = layout
        self._layouts.move_to_end(layout.segment)
        if len(self._layouts) > self._config.layouts_max:
            self.forget(next(iter(self._layouts)))

    @contextmanager
    def freeze(self, segment: str) -> Iterator[None]:
        """Follow no links of the segment meanwhile: its rows may be new already and its layout old.

        What is known of it is used, since the objects of the old layout stay. The caller is the only one that
        modifies the segment.
        """
        end = self._frozen[segment] = asyncio.get_running_loop().create_future()
        try:
            yield
        finally:
            del self._frozen[segment]
            end.set_result(None)

    def put_rewritten(
        self, layout: SegmentLayout, old: Neighbours, names: Sequence[str], starts: Sequence[int]
    ) -> None:
        """Set the layout of a segment in which other chunks have replaced ``old``."""
        index, walked = self._indexes.get(layout.segment), self._walked.get(layout.segment)
        self.put(layout)
        if index is not None:
            index.replace(old, names, starts)
        if walked is not None and walked is not index:
            walked.replace(old, names, starts)

    def forget(self, segment: str) -> None:
        """Drop the layout of a segment; its rows have it. Fine if it was not cached."""
        self._layouts.pop(segment, None)
        self._indexes.pop(segment, None)
