"""What connections need of the store. Everything runs on the store's loop."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from headrace.model.segment_access import SegmentAccess
from headrace.model.tables import TableEntry
from headrace.segmentstore.container.append_target import AppendTarget
from headrace.segmentstore.contract import ReadResult, SegmentInfo
from headrace.segmentstore.tables.update_batch import OnUpdated


class StoreFacade(SegmentAccess, Protocol):
    """What connections ask beyond :class:`SegmentAccess`: for answers without waiting, and more facts."""

    async def create_transient_segment(self, parent: str, writer_id: bytes) -> str:
        """Return the name that was made."""

    async def segment_info(self, segment: str, /) -> SegmentInfo: ...

    async def purge(self, segments: Sequence[str]) -> dict[int, BaseException | None]:
        """Return the failure, if there is one, by container that runs here."""

    async def answer(self, question: bytes) -> bytes:
        """Answer what another process of Headrace asks about this one. Raises InvalidArgumentError."""

    async def read(self, segment: str, /, offset: int, length_max: int, *, wait: bool) -> ReadResult:
        """Without ``wait``, wait for storage only: a read at the tail is answered with nothing."""

    def read_nowait(self, segment: str, offset: int, length_max: int) -> ReadResult | None:
        """Return bytes from memory, or None: then :meth:`read` answers."""

    def is_at_tail(self, segment: str, offset: int) -> bool | None:
        """Return whether a read there waits for an append; None while the segment is inactive.

        Never raises: False if there can be no answer but an error.
        """

    def append_target(self, segment: str) -> AppendTarget | None:
        """Return where to append, or None if the segment is inactive or absent: ``open_target`` finds out."""

    async def open_target(self, segment: str) -> AppendTarget:
        """Return where to append, once the segment is active."""

    def begin_table_update(
        self, segment: str, entries: Sequence[TableEntry], expected_length: int, on_updated: OnUpdated
    ) -> bool:
        """Begin an update together with others; False if :meth:`table_update` has to do it.

        If ``on_updated`` gets neither versions nor an error, nothing was done, and it has to as well.
        """

    def table_get_nowait(
        self, segment: str, keys: Sequence[bytes], bytes_max: int
    ) -> list[TableEntry | None] | None:
        """Return what :meth:`table_get` does if that is in memory, or None."""
