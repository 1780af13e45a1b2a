"""The indexes of the segments of one container."""

from __future__ import annotations

from collections.abc import Callable

from headrace.segmentstore.attributes.config import AttributesConfig
from headrace.segmentstore.attributes.page_cache import PageCache
from headrace.segmentstore.attributes.segment_index import IndexStorage, Judge, SegmentIndex
from headrace.segmentstore.state.segment_state import SegmentState

ATTRIBUTE_ID_BYTES = 16


class SegmentIndexes:
    """Indexes by segment: at most one object for each, so that updates follow each other."""

    def __init__(
        self,
        storage: Callable[[], IndexStorage],
        pages: PageCache,
        config: AttributesConfig,
        judge: Judge,
    ) -> None:
        self._storage = storage
        self._config = config
        self._pages = pages
        self._judge = judge
        self._indexes: dict[int, SegmentIndex] = {}

    def __len__(self) -> int:
        return len(self._indexes)

    @property
    def bytes_written(self) -> int:
        """To the indexes that are open now."""
        return sum(index.bytes_written for index in self._indexes.values())

    @property
    def pages_read(self) -> int:
        """From storage, by the indexes that are open now."""
        return sum(index.pages_read for index in self._indexes.values())

    def get(self, segment: SegmentState, key_bytes: int = ATTRIBUTE_ID_BYTES) -> SegmentIndex:
        """Return the index of a segment, which may have nothing in storage."""
        index = self._indexes.get(segment.segment_id)
        if index is None:
            index = SegmentIndex(
                segment.index_storage_name, key_bytes, self._storage, self._pages, self._config, self._judge
            )
            self._indexes[segment.segment_id] = index
        return index

    def is_idle(self, segment: SegmentState) -> bool:
        """Whether no update of a segment's index is in flight."""
        index = self._indexes.get(segment.segment_id)
        return index is None or not index.is_busy

    def drop(self, segment: SegmentState) -> None:
        """A segment was evicted: forget its index, which is idle."""
        index = self._indexes.pop(segment.segment_id, None)
        if index is not None:
            index.close()

    async def delete(self, segment: SegmentState) -> None:
        """Delete the index of a retired segment, if it may have one. Raises as :meth:`SegmentIndex.delete`.

        Tables do not note that they have one; of others, which may be a transaction's, storage is not asked.
        """
        if segment.is_table or segment.attributes.has_index:
            await self.get(segment).delete()
        self._indexes.pop(segment.segment_id, None)
