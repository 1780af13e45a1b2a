"""The segment catalogue: a table inside the container that stands for its inactive segments.

A row whose segment id is in memory has no meaning: the state in memory is the truth, and the row is as old as
the last eviction of the segment. A row whose id is not in memory is the truth.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from headrace.errors import CorruptionError
from headrace.limits import MIB
from headrace.model.attributes import ROLLOVER_SIZE, SEGMENT_TYPE, TYPE_SYSTEM, TYPE_TABLE
from headrace.model.tables import TableEntry, TableKey
from headrace.segmentstore.container.catalogue_row import CatalogueRow, decode_row
from headrace.segmentstore.segment_names import INTERNAL_PREFIX
from headrace.segmentstore.state.segment_state import SegmentState
from headrace.segmentstore.tables.tables import ContainerTables

_CHUNK_BYTES: Final = 16 * MIB


def catalogue_name(container_id: int) -> str:
    return f"{INTERNAL_PREFIX}metadata_{container_id}"


class SegmentCatalogue:
    """Rows by segment name. All methods run on the container's loop."""

    attributes: Final = {SEGMENT_TYPE: TYPE_SYSTEM | TYPE_TABLE, ROLLOVER_SIZE: _CHUNK_BYTES}
    """Attributes of the table in a new container."""

    def __init__(self, container_id: int, tables: ContainerTables) -> None:
        self.name = catalogue_name(container_id)
        self.changing = asyncio.Lock()
        """Locked from writing rows until their segments are evicted, and while rows are removed: a row must
        not be written for a segment that is being forgotten."""
        self._tables = tables
        self._segment: SegmentState | None = None
        self._losses = 0
        """How often rows were removed, or replaced by those of other segments."""

    def open(self, segment: SegmentState) -> None:
        """Use that table, which is pinned from now on."""
        segment.pin()
        self._segment = segment

    def is_absent(self, name: str) -> bool:
        """Whether there is certainly no row, without waiting; False may mean that it is not known yet."""
        segment = self._segment
        if segment is None or not segment.accepted_length:
            return True  # nothing was ever evicted, or this is the catalogue's own creation
        return self._tables.contains_nowait(segment, name.encode()) is False

    async def load(self, names: Sequence[str]) -> None:
        """Load what tells whether there are rows of these names, so that :meth:`is_absent` knows it for now.
        Raises as :meth:`find`.
        """
        if self._segment is not None and self._segment.accepted_length:
            await self._tables.load(self.name, [name.encode() for name in names])

    async def find(self, name: str) -> CatalogueRow | None:
        """Return the row of a segment.

        Raises:
            DataCorruptionError: the row is damaged.
            StorageReadError: whether there is a row cannot be known now.
        """
        if self.is_absent(name):
            return None
        while True:
            losses = self._losses
            [entry] = await self._tables.get(self.name, [name.encode()])
            if entry is None or self.is_absent(name):  # it may have been removed while it was read
                return None
            if losses == self._losses:
                return decode_row(name, bytes(entry.value))
            # It may have been replaced by the row of another segment of that name.

    async def put(self, rows: Sequence[tuple[SegmentState, bytes]]) -> None:
        """Write rows; all are durable when it returns."""
        if rows:
            entries = [TableEntry(segment.name.encode(), row) for segment, row in rows]
            # A segment whose row is known replaces its own row.
            replaces = any(each.catalogue_row is None and not self.is_absent(each.name) for each, _ in rows)
            await self._tables.update(self.name, entries)
            self._losses += replaces
            for segment, row in rows:
                segment.note_catalogue_row(row)

    async def remove(self, segments: Sequence[SegmentState]) -> dict[SegmentState, CorruptionError]:
        """Remove the rows of retired segments. A row of another segment of the same name stays.

        Returns those whose rows are damaged, with the error; these rows stay.

        Raises:
            CorruptionError: the catalogue cannot be read at all.
        """
        damaged: dict[SegmentState, CorruptionError] = {}
        wanted = [segment for segment in segments if not self.is_absent(segment.name)]
        try:
            keys = await self._find_own(wanted)
        except CorruptionError:
            if self._segment is None or not self._tables.is_open(self._segment):
                raise  # each attempt would read its log again
            keys = []
            for segment in wanted:
                try:
                    keys += await self._find_own([segment])
                except CorruptionError as error:
                    damaged[segment] = error
        if keys:
            await self._tables.remove(self.name, keys)
            self._losses += 1
        return damaged

    async def _find_own(self, segments: Sequence[SegmentState]) -> list[TableKey]:
        """Return the keys of the rows of exactly these segments. Raises as :meth:`find`."""
        if not segments:
            return []
        entries = await self._tables.get(self.name, [segment.name.encode() for segment in segments])
        return [
            TableKey(entry.key, entry.version)
            for segment, entry in zip(segments, entries, strict=True)
            if entry is not None
            and decode_row(segment.name, bytes(entry.value)).segment.segment_id == segment.segment_id
        ]

    def count(self) -> int:
        """Return at most how many rows there are; -1 while it is not known."""
        if self._segment is None or not self._segment.accepted_length:
            return 0
        found = self._tables.count_max(self._segment)
        return -1 if found is None else found
