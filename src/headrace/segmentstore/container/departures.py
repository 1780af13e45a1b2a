"""Merged and deleted segments on their way out: they are forgotten once storage holds nothing of them.

A stop at any moment leaves them in the log, in an operation or in the checkpoint where the log begins: a
checkpoint holds every segment that was not forgotten when it was begun. So the next owner meets them again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from itertools import islice
from typing import Final

from headrace.errors import CorruptionError, HeadraceError, StorageReadError
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

_NAMES_SAID_MAX: Final = 10

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
        """Those that stay because their rows are damaged. They are looked at again, but not at each cut."""
        self._look_again_at = 0.0

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
        failures = 0
        while True:
            await self._look.wait()
            self._look.clear()
            try:
                await self.forget()
            except FATAL:
                raise
            except HeadraceError as error:
                failures += 1
                _logger.warning("forgetting retired segments failed %d times: %s", failures, error)
                pause = self._config.retry_initial_s * 2 ** min(failures, 30)
                await asyncio.sleep(min(self._config.retry_max_s, pause))
                self._look.set()
            else:
                failures = 0
            self._left = len(self._state.departing)

    async def forget(self) -> bool:
        """Forget segments of which storage holds nothing any more; say whether there were any.

        Their rows go first: a row without a segment in memory would be taken for one that was evicted. Those
        whose rows are damaged stay, which is said, and hold up nobody else.

        Raises:
            StorageReadError: the catalogue does not answer, or is damaged as a whole; they stay.
        """
        departing = self._state.departing
        now = asyncio.get_running_loop().time()
        if now >= self._look_again_at:
            self._damaged.clear()
        gone = [state for state in departing if state.stored_deleted and state not in self._damaged]
        damaged: dict[SegmentState, CorruptionError] = {}
        for begin in range(0, len(gone), _FORGOTTEN_AT_ONCE):
            if begin:
                await asyncio.sleep(0)
            portion = gone[begin : begin + _FORGOTTEN_AT_ONCE]
            async with self._catalogue.changing:  # another caller may have been faster
                damaged |= await self._forget_some([state for state in portion if state in departing])
        if damaged:
            self._damaged |= damaged.keys()
            self._look_again_at = now + self._config.retry_max_s
            self._report(damaged)
        return len(gone) > len(damaged)

    async def _forget_some(self, gone: list[SegmentState]) -> dict[SegmentState, CorruptionError]:
        try:
            damaged = await self._catalogue.remove(gone)
        except CorruptionError as error:
            raise StorageReadError(
                f"the rows of {len(gone)} retired segments cannot be removed from the catalogue, "
                f"so these stay in memory: {error}"
            ) from error
        for segment in gone:
            if segment not in damaged:
                self._state.forget(segment)
        return damaged

    @staticmethod
    def _report(damaged: Mapping[SegmentState, CorruptionError]) -> None:
        names = ", ".join(repr(segment.name) for segment in islice(damaged, _NAMES_SAID_MAX))
        more = f" and {len(damaged) - _NAMES_SAID_MAX} more" if len(damaged) > _NAMES_SAID_MAX else ""
        _logger.error(
            "the catalogue's rows of %d retired segments are damaged, they stay in memory: %s%s: %s",
            len(damaged),
            names,
            more,
            next(iter(damaged.values())),
        )
