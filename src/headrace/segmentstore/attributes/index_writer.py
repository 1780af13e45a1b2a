"""Writes extended attributes to the indexes of their segments, the latest value of each, in the background.

The log does not wait for it: checkpoints have whatever an index does not have yet. A lost write only means
that the values are written again.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from array import array
from dataclasses import dataclass
from typing import Final

from headrace.errors import CorruptionError, FencedOutError, HeadraceError, NoSuchSegmentError
from headrace.model.attributes import ATTRIBUTE_NULL
from headrace.runtime.loop_budget import LoopBudget
from headrace.segmentstore.attributes.config import AttributesConfig
from headrace.segmentstore.attributes.segment_indexes import SegmentIndexes
from headrace.segmentstore.state.container_state import ContainerState
from headrace.segmentstore.state.segment_state import SegmentState

_logger = logging.getLogger(__name__)

_CHECKED_AT_ONCE: Final = 1000
"""Segments looked at before yielding to the loop."""

_FEW: Final = 8
"""Values that a segment may have in memory however many segments there are."""


@dataclass(slots=True)
class AttributesStatistics:
    """Counts since creation, and gauges of now."""

    index_writes: int
    index_bytes_written: int
    index_failures: int
    values_written: int
    values_evicted: int
    indexes_open: int
    pages_read: int
    """From storage, by the indexes that are open now."""


class IndexWriter:
    """The indexes of one container are written while :meth:`run` runs, one after another."""

    def __init__(self, state: ContainerState, indexes: SegmentIndexes, config: AttributesConfig) -> None:
        self._state = state
        self._indexes = indexes
        self._config = config
        self._due: dict[SegmentState, None] = {}
        self._wake = asyncio.Event()
        self._kept = config.cached_values
        """Values of one segment in memory besides newer ones and those in use, since the last sweep."""
        self.writes = 0
        self.values_written = 0
        self.failures = 0
        self.evicted = 0

    def on_grown(self, segment: SegmentState) -> None:
        """A segment may have too many values in memory: evict some now, write newer ones soon."""
        if segment in self._due:
            return  # what can leave has left, the rest after the write
        attributes = segment.attributes
        self.evicted += attributes.evict(self._kept)
        if len(attributes.newer) >= min(self._config.flush_values, max(1, self._kept)):
            self._due[segment] = None
            self._wake.set()

    async def run(self) -> None:
        """Write what is due, and look at all segments from time to time, until cancelled.

        Raises:
            FencedOutError: a newer owner has the container.
        """
        loop = asyncio.get_running_loop()
        next_sweep = loop.time()
        while True:
            if loop.time() >= next_sweep:
                await self._sweep()
                next_sweep = loop.time() + self._config.sweep_interval_s
            self._wake.clear()
            while self._due:
                segment = next(iter(self._due))
                del self._due[segment]
                try:
                    await self.write(segment)
                except FencedOutError:
                    raise
                except HeadraceError as error:
                    self.failures += 1
                    level = logging.ERROR if isinstance(error, CorruptionError) else logging.WARNING
                    _logger.log(
                        level, "attributes of segment %r stay in the log for now: %s", segment.name, error
                    )
                    await asyncio.sleep(self._config.retry_s)  # the next sweep finds it again
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout_at(next_sweep):
                    await self._wake.wait()

    async def write(self, segment: SegmentState) -> None:
        """Write the newer values of a segment to its index, unless it is retired, a table or transient.

        Raises as :meth:`SegmentIndex.update`.
        """
        is_gone = segment.evicted or segment.accepted_deleted or segment.accepted_merged
        if is_gone or segment.is_table or segment.is_transient:
            return
        with segment.held(), contextlib.suppress(NoSuchSegmentError):  # deleted meanwhile
            await self._write(segment)

    async def _write(self, segment: SegmentState) -> None:
        attributes, index = segment.attributes, self._indexes.get(segment)
        root = await index.open()
        values = attributes.unwritten()
        if values and (root.page is not None or any(value != ATTRIBUTE_NULL for value in values.values())):
            segment.note_index()  # before: from now on what is not in memory may be there
            await index.update(b"".join(values), array("q", values.values()))
            self.writes += 1
            self.values_written += len(values)
        attributes.note_written(values)
        segment.drop_checkpoint_row()
        self.evicted += attributes.evict(self._kept)

    def statistics(self) -> AttributesStatistics:
        indexes = self._indexes
        return AttributesStatistics(
            index_writes=self.writes,
            index_bytes_written=indexes.bytes_written,
            index_failures=self.failures,
            values_written=self.values_written,
            values_evicted=self.evicted,
            indexes_open=len(indexes),
            pages_read=indexes.pages_read,
        )

    async def _sweep(self) -> None:
        """Find segments with more values than they may have. Each takes less than a microsecond."""
        config = self._config
        segments = list(self._state.by_name.values())
        total = 0
        budget = LoopBudget(_CHECKED_AT_ONCE)
        for begin in range(0, len(segments), _CHECKED_AT_ONCE):
            await budget.spend(_CHECKED_AT_ONCE)
            total += sum(len(each.attributes.accepted) for each in segments[begin : begin + _CHECKED_AT_ONCE])
        self._kept = config.cached_values
        if total > config.values_max:
            self._kept = min(self._kept, max(_FEW, config.values_max // (2 * len(segments))))
        flush_at = min(config.flush_values, self._kept)
        for begin in range(0, len(segments), _CHECKED_AT_ONCE):
            await budget.spend(_CHECKED_AT_ONCE)
            for each in segments[begin : begin + _CHECKED_AT_ONCE]:
                attributes = each.attributes
                if len(attributes.accepted) > self._kept:
                    self.evicted += attributes.evict(self._kept)
                if len(attributes.newer) >= flush_at:
                    self._due[each] = None
