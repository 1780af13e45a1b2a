"""Brings extended attributes into memory for whom needs them, and lets them leave again."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import asynccontextmanager

from headrace.errors import NoSuchSegmentError, ThrottledError
from headrace.segmentstore.attributes.config import AttributesConfig
from headrace.segmentstore.attributes.segment_indexes import SegmentIndexes
from headrace.segmentstore.state.segment_state import SegmentState


class AttributeValues:
    """The extended attributes of one container's segments, as far as calls use them.

    They are loaded before an operation is submitted, and held until it is accepted, so that the log never
    waits for storage; and what was accepted while they were read wins.

    Args:
        on_grown: called with a segment that may have too many values in memory.
    """

    def __init__(
        self,
        indexes: SegmentIndexes,
        config: AttributesConfig,
        on_grown: Callable[[SegmentState], None],
    ) -> None:
        self._indexes = indexes
        self._config = config
        self._on_grown = on_grown
        self._added = 0
        self.loaded = 0

    @asynccontextmanager
    async def held(self, segment: SegmentState, attribute_ids: Collection[bytes]) -> AsyncIterator[None]:
        """Load attributes, and retain them in memory in a context. Raises as :meth:`load`."""
        segment.attributes.hold(attribute_ids)
        try:
            await self.load(segment, attribute_ids)
            yield
        finally:
            segment.attributes.release(attribute_ids)

    async def load(self, segment: SegmentState, attribute_ids: Collection[bytes]) -> None:
        """Load attributes that the caller holds, of a segment that it holds; returns at once if none is
        missing.

        Nothing is loaded of a segment that is retired or evicted, or becomes it meanwhile: what needs them is
        refused.

        Raises:
            ThrottledError: too many values wait for the index; nothing changed.
            StorageReadError: the index does not answer; nothing changed.
            DataCorruptionError: the index is damaged there.
            FencedOutError: a newer owner has the container.
        """
        attributes = segment.attributes
        if not attribute_ids:
            return
        if len(attributes.newer) >= self._config.unwritten_values_max:
            self._on_grown(segment)
            raise ThrottledError(
                f"segment {segment.name!r} has {len(attributes.newer)} attributes that long-term storage has "
                "not taken yet: nothing was done, send again"
            )
        missing = attributes.missing(attribute_ids)
        if missing and not _is_gone(segment):
            await self._fill(segment, missing)
        self._added += len(attribute_ids)
        if self._added >= self._config.cached_values or len(attributes.newer) >= self._config.flush_values:
            self._added = 0
            self._on_grown(segment)

    async def _fill(self, segment: SegmentState, missing: Sequence[bytes]) -> None:
        try:
            values = await self._indexes.get(segment).lookup(b"".join(missing))
        except NoSuchSegmentError:
            if not _is_gone(segment):
                raise
        else:
            if not _is_gone(segment):
                segment.attributes.fill(missing, values)
                self.loaded += len(missing)


def _is_gone(segment: SegmentState) -> bool:
    """Whether a segment is retired, so that its index may be gone, or this object was evicted."""
    return segment.accepted_deleted or segment.accepted_merged
