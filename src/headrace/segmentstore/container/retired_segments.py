"""Merged and deleted segments that are still in state: they are forgotten once storage has removed them.

A stop at any moment leaves them in the log, in an operation or in the checkpoint where the log begins: a
checkpoint has every segment that was not forgotten when it began. So the next owner recovers them.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from headrace.errors import CorruptionError, HeadraceError, StorageReadError
from headrace.runtime.loop_budget import LoopBudget
from headrace.segmentstore.attributes.segment_indexes import SegmentIndexes
from headrace.segmentstore.container.segment_catalogue import SegmentCatalogue
from headrace.segmentstore.contract import StoredDelete
from headrace.segmentstore.durablelog.durable_log import DurableLog
from headrace.segmentstore.state.container_state import ContainerState
from headrace.segmentstore.state.segment_state import SegmentState
from headrace.segmentstore.storagewriter.config import StorageWriterConfig
from headrace.segmentstore.storagewriter.flushing import FATAL

_logger = logging.getLogger(__name__)

_FORGOTTEN_AT_ONCE: Final = 256
"""Segments whose rows are read together: with the largest rows, half of the bound of a read of a table. The
coroutine yields to the loop in between, also if there is no row: each segment takes 5 to 10 us.
"""

_MANY: Final = 1000
"""So many new ones since the last :meth:`forget` cause the next one."""


class RetiredSegments:
    """The retired segments of one container."""

    def __init__(
        self,
        state: ContainerState,
        log: DurableLog,
        catalogue: SegmentCatalogue,
        indexes: SegmentIndexes,
        config: StorageWriterConfig,
    ) -> None:
        self._state = state
        self._log = log
        self._catalogue = catalogue
        self._indexes = indexes
        self._config = config
        self._wake = asyncio.Event()
        self._remaining = 0
        """How many there were after the last :meth:`forget`."""
        self._damaged: set[SegmentState] = set()
        """Segments that stay because their rows are damaged: the next owner tries again."""

    def recover(self, segment: SegmentState) -> None:
        """A retired segment was recovered: have storage remove it, unless it has done so."""
        if segment.segment_id not in self._log.retired_in_log:
            if segment.merged:
                # The log was truncated behind the merge: storage has completed it. Its row may still exist.
                segment.note_stored_deletion()
                return
            self._log.memory_log.add(StoredDelete(self._state.next_sequence(), segment))

    def on_log_truncated(self) -> None:
        """The log was truncated: notify :meth:`run`."""
        self._wake.set()

    def on_progress(self) -> None:
        """Storage has made progress, perhaps without a truncation, which another segment may prevent."""
        if len(self._state.retired) >= self._remaining + _MANY:
            self._wake.set()

    async def run(self) -> None:
        """Forget after each truncation of the log, and when many are retired; retry with back-off.

        Not a part of truncation, because removals from the catalogue are written into the log: if that is
        full, only another truncation frees it.

        Raises:
            FencedOutError: a newer owner has the container.
        """
        pause_s = self._config.retry_initial_s
        while True:
            await self._wake.wait()
            self._wake.clear()
            try:
                await self.forget()
            except FATAL:
                raise
            except HeadraceError as error:
                _logger.warning("forgetting retired segments failed: %s", error)
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, self._config.retry_max_s)
                self._wake.set()
            else:
                pause_s = self._config.retry_initial_s
            self._remaining = len(self._state.retired)

    async def forget(self) -> bool:
        """Forget segments that storage has removed; return whether there were any.

        Their rows are removed first: a row without a segment in memory would stand for an evicted one.
        Segments whose rows are damaged stay, which is logged, and block no others.

        Raises:
            StorageReadError: the catalogue does not answer, or is damaged as a whole; they stay.
        """
        retired = self._state.retired
        gone = [state for state in retired if state.stored_deleted and state not in self._damaged]
        budget = LoopBudget(_FORGOTTEN_AT_ONCE)
        for begin in range(0, len(gone), _FORGOTTEN_AT_ONCE):
            some = gone[begin : begin + _FORGOTTEN_AT_ONCE]
            await budget.spend(len(some))
            async with self._catalogue.changing:  # another caller may have forgotten some
                await self._forget_some([state for state in some if state in retired])
        return not self._damaged.issuperset(gone)

    async def _forget_some(self, gone: list[SegmentState]) -> None:
        try:
            damaged = await self._catalogue.remove(gone)
        except CorruptionError as error:
            raise StorageReadError(
                f"the rows of {len(gone)} retired segments cannot be removed from the catalogue, "
                f"so these stay in memory: {error}"
            ) from error
        for segment in gone:
            damage = damaged.get(segment)
            if damage is None and (segment.attributes.has_index or segment.is_table):
                try:
                    await self._indexes.delete(segment)
                except CorruptionError as error:
                    damage = error
            if damage is None:
                self._state.forget(segment)
            else:
                self._damaged.add(segment)
                _logger.error("retired segment %r stays in memory, its rows: %s", segment.name, damage)
