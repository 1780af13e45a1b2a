"""Merged and deleted segments on their way out: they are forgotten once storage holds nothing of them.

A stop at any moment leaves them in the log, in an operation or in the checkpoint where the log begins: a
checkpoint holds every segment that was not forgotten when it was begun. So the next owner meets them again.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from headrace.errors import CorruptionError, HeadraceError, StorageReadError
from headrace.runtime.loop_budget import LoopBudget
from headrace.segmentstore.container.segment_catalogue import SegmentCatalogue
from headrace.segmentstore.contract import StoredDelete
from headrace.segmentstore.durablelog.durable_log import DurableLog
from headrace.segmentstore.state.container_state import ContainerState
from headrace.segmentstore.state.segment_state import SegmentState
from headrace.segmentstore.storagewriter.config import StorageWriterConfig
from headrace.segmentstore.storagewriter.flushing import FATAL

_logger = logging.getLogger(__name__)

_FORGOTTEN_AT_ONCE: Final = 256
"""Segments whose rows are read together: with the largest rows, half of what one read of a table may take.
Others have a turn in between, also if there is no row to be read: each takes 5 to 10 us.
"""

_MANY: Final = 1000
"""So many more than at the last look are reason for the next one."""


class Departures:
    """The departing segments of one container."""

    def __init__(
        self,
        state: ContainerState,
        log: DurableLog,
        catalogue: SegmentCatalogue,
        config: StorageWriterConfig,
    ) -> None:
        self._state = state
        self._log = log
        self._catalogue = catalogue
        self._config = config
        self._look = asyncio.Event()
        self._left = 0
        """How many there were after the last look."""
        self._damaged: set[SegmentState] = set()
        """Those that stay because their rows are damaged: the next owner looks at them again."""

    def recover(self, segment: SegmentState) -> None:
        """A merged or deleted segment was recovered: storage lets go of it, if it has not done so before."""
        if segment.segment_id not in self._log.departed_in_log:
            if segment.merged:
                # The log was cut behind the merge, so storage has completed it. Its row may still be there.
                segment.note_stored_deletion()
                return
            self._log.memory_log.add(StoredDelete(self._state.next_sequence(), segment))

    def on_log_cut(self) -> None:
        """The log was cut: have :meth:`run` look."""
        self._look.set()

    def on_progress(self) -> None:
        """Storage took something over. It may be what keeps the log from being cut that it does not take."""
        if len(self._state.departing) >= self._left + _MANY:
            self._look.set()

    async def run(self) -> None:
        """Forget behind each cut of the log, and when many are gone; what fails is tried again, ever later.

        This is no part of cutting: what leaves the catalogue is written into the log. If that is full, only
        another cut makes room.

        Raises:
            FencedOutError: a newer owner has the container.
        """
        pause_s = self._config.retry_initial_s
        while True:
            await self._look.wait()
            self._look.clear()
            try:
                await self.forget()
            except FATAL:
                raise
            except HeadraceError as error:
                _logger.warning("forgetting retired segments failed: %s", error)
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, self._config.retry_max_s)
                self._look.set()
            else:
                pause_s = self._config.retry_initial_s
            self._left = len(self._state.departing)

    async def forget(self) -> bool:
        """Forget segments of which storage holds nothing any more; say whether there were any.

        Their rows go first: a row without a segment in memory would be taken for one that was evicted. Those
        whose rows are damaged stay, which is said, and hold up nobody else.

        Raises:
            StorageReadError: the catalogue does not answer, or is damaged as a whole; they stay.
        """
        departing = self._state.departing
        gone = [state for state in departing if state.stored_deleted and state not in self._damaged]
        budget = LoopBudget(_FORGOTTEN_AT_ONCE)
        for begin in range(0, len(gone), _FORGOTTEN_AT_ONCE):
            portion = gone[begin : begin + _FORGOTTEN_AT_ONCE]
            await budget.spend(len(portion))
            async with self._catalogue.changing:  # another caller may have been faster
                await self._forget_some([state for state in portion if state in departing])
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
            if (damage := damaged.get(segment)) is None:
                self._state.forget(segment)
            else:
                self._damaged.add(segment)
                _logger.error("retired segment %r stays in memory, its row: %s", segment.name, damage)
