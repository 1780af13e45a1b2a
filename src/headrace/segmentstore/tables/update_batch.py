"""Updates of many callers that become one append: those that begin before it is handed to the log."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from headrace.errors import HeadraceError
from headrace.limits import KIB
from headrace.model.tables import TableEntry
from headrace.segmentstore.tables.entry_format import ENTRY_HEADER_BYTES, encode_entry
from headrace.segmentstore.tables.locations import pack_location
from headrace.segmentstore.tables.state import Batch

UPDATE_BATCH_BYTES_MAX: Final = 256 * KIB
"""An update that would make a batch larger is not added to it."""

OnUpdated = Callable[[list[int] | None, HeadraceError | None], None]
"""Called once, on the loop, with the new versions or an error. With neither nothing was done: the update has
to be judged again, by what came of those in front of it."""


class UpdateBatch(Batch):
    """A batch that grows until it is handed to the log. Its updates are durable together or not at all."""

    __slots__ = ("callers", "pieces")

    def __init__(self, offset: int) -> None:
        super().__init__(offset, offset, [], [])
        self.pieces: list[bytes] = []
        """The entries as they are logged."""
        self.callers: list[tuple[list[int], OnUpdated]] = []

    def add(self, entries: Sequence[TableEntry], on_updated: OnUpdated) -> list[int]:
        """Add an update at the end; return the locations of its keys, by which the state extends this."""
        locations: list[int] = []
        versions: list[int] = []
        at = self.end
        for entry in entries:
            key, value = entry.key, entry.value
            self.pieces += encode_entry(key, value)
            size = ENTRY_HEADER_BYTES + len(key) + len(value)
            versions.append(at)
            locations.append(pack_location(at, size))
            at += size
        self.callers.append((versions, on_updated))
        return locations

    def notify(self, error: HeadraceError | None, *, done: bool) -> None:
        """Notify the callers, in order."""
        for versions, on_updated in self.callers:
            on_updated(versions if done else None, error)
