"""Knows the chunks of segments that are not in memory, so that they are not taken for garbage."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.errors import DataCorruptionError
from headrace.segmentstore.container.segment_catalogue import SegmentCatalogue
from headrace.segmentstore.container.stored_lengths import segment_id_of
from headrace.storage.chunks.chunk_names import parse_chunk_name
from headrace.storage.metadata.rows import chunk_key


class ArchivedChunks:
    """The rows that left memory with their segments, in the catalogue. Only chunks that were created for
    their own segment are there, so a chunk's name leads to its row.
    """

    def __init__(self, catalogue: SegmentCatalogue) -> None:
        self._catalogue = catalogue

    async def find_chunks(self, names: Sequence[str]) -> set[str]:
        """See :meth:`RowArchive.find_chunks`."""
        by_segment: dict[str, list[str]] = {}
        for name in names:
            parsed = parse_chunk_name(name)
            if parsed is not None:
                by_segment.setdefault(parsed.segment, []).append(name)
        found: set[str] = set()
        for segment, chunks in by_segment.items():
            found.update(await self._find_of(segment, chunks))
        return found

    async def _find_of(self, storage_name: str, chunks: list[str]) -> list[str]:
        try:
            segment_id = segment_id_of(storage_name)
            row = await self._catalogue.find(storage_name.rpartition(".")[0])
        except ValueError:
            return []  # no name that this container gives
        except DataCorruptionError:
            return chunks  # nobody can say any more that they are not needed
        if row is None or row.segment.segment_id != segment_id:
            return []
        return [chunk for chunk in chunks if chunk_key(chunk) in row.storage_rows]
