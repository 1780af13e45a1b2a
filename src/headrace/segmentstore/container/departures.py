"""Merged and deleted segments on their way out: they are forgotten once storage holds nothing of them.

A stop at any moment leaves them in the log, in an operation or in the checkpoint where the log begins: a
checkpoint holds every segment that was not forgotten when it was begun. So the next owner meets them again.
"""

from __future__ import annotations

from headrace.errors import CorruptionError, StorageReadError
from headrace.segmentstore.container.container_state import ContainerState
from headrace.segmentstore.container.segment_catalogue import SegmentCatalogue
from headrace.segmentstore.container.segment_state import SegmentState
from headrace.segmentstore.contract import StoredDelete
from headrace.segmentstore.durablelog.durable_log import DurableLog


class Departures:
    """The departing segments of one container."""

    def __init__(self, state: ContainerState, log: DurableLog, catalogue: SegmentCatalogue) -> None:
        self._state = state
        self._log = log
        self._catalogue = catalogue

    def recover(self, segment: SegmentState) -> None:
        """A merged or deleted segment was recovered: storage lets go of it, if it has not done so before."""
        if segment.segment_id not in self._log.departed_in_log:
            if segment.merged:
                # The log was cut behind the merge, so storage has completed it. Its row may still be there.
                segment.stored_deleted = True
                return
            self._log.memory_log.add(StoredDelete(self._state.next_sequence(), segment))

    async def forget(self) -> bool:
        """Forget segments of which storage holds nothing any more; say whether there were any.

        Their rows go first: a row without a segment in memory would be taken for one that was evicted.

        Raises:
            StorageReadError: the catalogue does not answer, or is damaged; they stay.
        """
        gone = [state for state in self._state.departing if state.stored_deleted]
        if not gone:
            return False
        try:
            async with self._catalogue.changing:
                await self._catalogue.remove(gone)
        except CorruptionError as error:
            raise StorageReadError(
                f"the rows of {len(gone)} segments that are gone cannot be removed from the catalogue, "
                f"so these stay in memory: {error}"
            ) from error
        for segment in gone:
            self._state.forget(segment)
        return True
