"""Reads the attribute index of a segment from its chunks."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from typing import TypeVar

from headrace.btree.footer_format import FOOTER_BYTES, TreeRoot, decode_footer
from headrace.btree.page_format import Fetch
from headrace.errors import DataCorruptionError, StorageReadError
from headrace.storage.chunks.segment_layout import load_layout, walk_chunks
from headrace.storage.inspect import StoredChunks

T = TypeVar("T")


class IndexPages:
    """The pages of one index, each read from its chunk when a plan asks for it.

    Args:
        name: of the index in storage.
        find_row: returns a row of long-term storage, or None.
    """

    def __init__(self, name: str, find_row: Callable[[str], bytes | None], files: StoredChunks) -> None:
        self._name = name
        self._find_row = find_row
        self._files = files
        layout = load_layout(name, find_row)
        self._chunks = [] if layout is None else list(walk_chunks(layout, find_row))
        self._starts = [start for _, start in self._chunks]
        self.length = 0 if layout is None else layout.length

    def root(self) -> TreeRoot | None:
        """Return the newest root; None if the segment has no index.

        Raises:
            DataCorruptionError: there is no footer where it should be, or it cannot be read.
        """
        if not self.length:
            return None
        return decode_footer(self.read(self.length - FOOTER_BYTES, FOOTER_BYTES), self.length)

    def run(self, plan: Fetch[T]) -> T:
        """Run a plan. Raises: DataCorruptionError, OSError."""
        try:
            refs = next(plan)
            while True:
                refs = plan.send([self.read(*ref) for ref in refs])
        except StopIteration as stop:
            result: T = stop.value
            return result

    def read(self, offset: int, length: int) -> bytes:
        """Return bytes of the index. Raises: DataCorruptionError, OSError."""
        found = bytearray()
        while len(found) < length:
            at = offset + len(found)
            place = bisect_right(self._starts, at) - 1
            if place < 0:
                raise DataCorruptionError(f"index {self._name!r} does not have offset {at}", offset=at)
            chunk, start = self._chunks[place]
            before = len(found)
            try:
                for begin, data in self._files.pieces(chunk, self._find_row, at - start):
                    found += data[max(0, at - start - begin) :][: length - len(found)]
                    break
            except (FileNotFoundError, StorageReadError) as error:  # rows name it with this length
                raise DataCorruptionError(
                    f"the chunk that holds index {self._name!r} from {start} on is missing or too short",
                    path=self._files.path(chunk.name),
                ) from error
            if len(found) == before:
                raise DataCorruptionError(f"index {self._name!r} ends at {at}", offset=at)
        return bytes(found)
