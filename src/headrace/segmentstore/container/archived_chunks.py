"""Knows the chunks of segments, in memory or not, so that they are not taken for garbage."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from headrace.errors import DataCorruptionError
from headrace.runtime.loop_budget import LoopBudget
from headrace.segmentstore.container.segment_catalogue import SegmentCatalogue
from headrace.segmentstore.container.stored_lengths import segment_id_of
from headrace.segmentstore.state.container_state import ContainerState
from headrace.storage.chunks.chunk_names import parse_chunk_name
from headrace.storage.metadata.rows import chunk_key

_LOOKED_FOR_IN_A_TURN: Final = 1000
"""Chunks looked for before others have a turn of the loop."""


class ArchivedChunks:
    """The rows that left memory with their segments, in the catalogue. Only chunks that were created for
    their own segment are there, so a chunk's name leads to its row.

    There may be millions of these rows, and none is read: whatever carries the name of an inactive segment
    counts as its chunk. Really left over, it is found to be so by an owner for whom the segment is active, or
    gone.
    """

    def __init__(self, catalogue: SegmentCatalogue, state: ContainerState) -> None:
        self._catalogue = catalogue
        self._state = state

    async def find_chunks(self, names: Sequence[str]) -> set[str]:
        """See :meth:`RowArchive.find_chunks`."""
        with suppress(DataCorruptionError):  # of no name it is known to be absent then
            await self._catalogue.load()
        found: set[str] = set()
        budget = LoopBudget(_LOOKED_FOR_IN_A_TURN)
        for name in names:
            await budget.spend()
            if self._is_needed(name):
                found.add(name)
        return found

    def _is_needed(self, chunk: str) -> bool:
        """Whether a chunk has a row now. Rows go to memory when a segment is activated, as is accepted, and
        leave it when its eviction is, so at each moment they are there or the segment is not.
        """
        parsed = parse_chunk_name(chunk)
        if parsed is None:
            return False
        state, key = self._state, chunk_key(chunk)
        if key in state.storage_rows or key in state.accepted_storage_rows:
            return True
        try:
            is_active = segment_id_of(parsed.segment) in state.by_id
        except ValueError:
            return False  # no name that this container gives
        return not is_active and not self._catalogue.is_absent(parsed.segment.rpartition(".")[0])
