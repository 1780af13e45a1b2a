"""Tells the chunks of segments, active or not, from garbage."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from headrace.errors import DataCorruptionError
from headrace.runtime.loop_budget import LoopBudget
from headrace.segmentstore.container.segment_catalogue import SegmentCatalogue
from headrace.segmentstore.segment_names import segment_id_of
from headrace.segmentstore.state.container_state import ContainerState
from headrace.storage.chunks.chunk_names import ChunkName, parse_chunk_name

_NAMES_PER_ITERATION: Final = 1000
"""Looked up in the catalogue by one call."""


class InactiveChunks:
    """The chunks of inactive segments whose rows earlier releases put into the catalogue. Only chunks that
    were created for their own segment are there, so a chunk's name leads to its row.

    There may be millions of these rows, and none is read: every object with the name of an inactive segment
    counts as its chunk. An orphan among them is found by an owner for which the segment is active or removed.
    """

    def __init__(self, catalogue: SegmentCatalogue, state: ContainerState) -> None:
        self._catalogue = catalogue
        self._state = state

    async def find_chunks(self, names: Sequence[str]) -> set[str]:
        """See :meth:`RowCatalogue.find_chunks`."""
        found: set[str] = set()
        budget = LoopBudget(_NAMES_PER_ITERATION)
        for begin in range(0, len(names), _NAMES_PER_ITERATION):
            await budget.spend(_NAMES_PER_ITERATION)
            some = names[begin : begin + _NAMES_PER_ITERATION]
            segments = [_segment_of(parsed) for name in some if (parsed := parse_chunk_name(name))]
            with suppress(DataCorruptionError):  # then no name is known to be absent
                await self._catalogue.load(segments)
            found.update(name for name in some if self._is_needed(name))
        return found

    def _is_needed(self, chunk: str) -> bool:
        """Whether the row of an inactive segment may have that of a chunk. If the segment is active, its rows
        were moved before.
        """
        parsed = parse_chunk_name(chunk)
        if parsed is None:
            return False
        try:
            is_active = segment_id_of(parsed.segment) in self._state.by_id
        except ValueError:
            return False  # not a name of this container
        return not is_active and not self._catalogue.is_absent(_segment_of(parsed))


def _segment_of(chunk: ChunkName) -> str:
    """Return the name of the segment to which a chunk, or the chunk of an index, belongs."""
    return chunk.segment.rpartition(".")[0]
