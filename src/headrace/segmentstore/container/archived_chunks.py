"""Knows the chunks of segments, in memory or not, so that they are not taken for garbage."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

from headrace.errors import DataCorruptionError
from headrace.segmentstore.container.catalogue_row import CatalogueRow
from headrace.segmentstore.container.segment_catalogue import SegmentCatalogue
from headrace.segmentstore.container.stored_lengths import segment_id_of
from headrace.storage.chunks.chunk_names import parse_chunk_name
from headrace.storage.metadata.rows import chunk_key

READS_MAX: Final = 10_000
_ATTEMPTS: Final = 3
_PAUSE_EVERY: Final = 16
"""Segments looked for without letting others run."""


class ArchivedChunks:
    """The rows that left memory with their segments, in the catalogue. Only chunks that were created for
    their own segment are there, so a chunk's name leads to its row.

    Reading a row takes a while, and there may be millions. After the first ten thousand, whatever carries the
    name of a segment that the catalogue knows counts as its chunk: really left over, it is found to be so by
    an owner for whom the segment is active, or gone.

    Args:
        get: returns a row that is in memory, or None.
    """

    def __init__(
        self,
        catalogue: SegmentCatalogue,
        get: Callable[[str], bytes | None],
        reads_max: int = READS_MAX,
    ) -> None:
        self._catalogue = catalogue
        self._get = get
        self._reads_left = reads_max

    async def find_chunks(self, names: Sequence[str]) -> set[str]:
        """See :meth:`RowArchive.find_chunks`."""
        by_segment: dict[str, list[str]] = {}
        for name in names:
            parsed = parse_chunk_name(name)
            if parsed is not None:
                by_segment.setdefault(parsed.segment, []).append(name)
        found: set[str] = set()
        for number, (segment, chunks) in enumerate(by_segment.items()):
            found.update(await self._find_of(segment, chunks))
            if number % _PAUSE_EVERY == _PAUSE_EVERY - 1:
                await asyncio.sleep(0)
        return found

    async def _find_of(self, storage_name: str, chunks: list[str]) -> list[str]:
        """Return those of one segment's chunks that have a row.

        Catalogue and memory are looked at for one and the same moment: between two, the rows may go from the
        one to the other in either direction, and be in neither when it is looked at.
        """
        try:
            segment_id = segment_id_of(storage_name)
        except ValueError:
            return self._in_memory(chunks)  # no name that this container gives
        name = storage_name.rpartition(".")[0]
        if self._catalogue.is_absent(name):
            return self._in_memory(chunks)
        if not self._reads_left:
            return chunks
        self._reads_left -= 1
        try:
            row = await self._find_row(name)
        except (DataCorruptionError, _ChangingError):
            return chunks  # nobody can say that they are not needed
        if row is None or row.segment.segment_id != segment_id:
            return self._in_memory(chunks)
        return [chunk for chunk in chunks if chunk_key(chunk) in row.storage_rows or self._has_row(chunk)]

    async def _find_row(self, name: str) -> CatalogueRow | None:
        """Return the row of a segment as it is now: no segment has left memory while it was read.

        Raises:
            _ChangingError: they leave all the time.
        """
        for _ in range(_ATTEMPTS):
            puts = self._catalogue.puts
            row = await self._catalogue.find(name)
            if puts == self._catalogue.puts:
                return row
        raise _ChangingError

    def _in_memory(self, chunks: list[str]) -> list[str]:
        return [chunk for chunk in chunks if self._has_row(chunk)]

    def _has_row(self, chunk: str) -> bool:
        return self._get(chunk_key(chunk)) is not None


class _ChangingError(Exception):
    """The catalogue does not stand still for as long as it takes to read one row."""
