"""Transient segments: they live as long as the connection that created them."""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from headrace.errors import (
    HeadraceError,
    NoSuchSegmentError,
    OverloadError,
    SegmentMergedError,
    ThrottledError,
)
from headrace.segmentstore.ingress.contract import StoreFacade

_logger = logging.getLogger(__name__)

_RETRY_S: Final = 0.5


class TransientSegments:
    """The transient segments of one connection."""

    __slots__ = ("_closed", "_count_max", "_creating", "_names", "_store")

    def __init__(self, store: StoreFacade, count_max: int) -> None:
        self._store = store
        self._count_max = count_max
        self._names: dict[str, None] = {}
        self._creating = 0
        self._closed = False

    @property
    def count(self) -> int:
        return len(self._names)

    async def create(self, parent: str, writer_id: bytes) -> str:
        """Create one and return its name; it is deleted again if the connection was lost meanwhile.

        Raises:
            ThrottledError: the connection has too many.
        """
        if len(self._names) + self._creating >= self._count_max:
            raise ThrottledError(f"more than {self._count_max} transient segments on one connection")
        self._creating += 1
        try:
            name = await self._store.create_transient_segment(parent, writer_id)
        finally:
            self._creating -= 1
        self._names[name] = None
        if self._closed:
            await self.delete_all()
        return name

    def forget(self, segment: str) -> None:
        """The segment was merged or deleted."""
        self._names.pop(segment, None)

    def close(self) -> bool:
        """The connection is lost: return whether any exist. ``create`` deletes what it is creating now."""
        self._closed = True
        return bool(self._names)

    async def delete_all(self) -> None:
        """Delete all of them, the oldest first."""
        while self._names:
            name = next(iter(self._names))
            del self._names[name]
            try:
                await self._store.delete_segment(name)
            except (NoSuchSegmentError, SegmentMergedError):
                pass  # merged, as it should be
            except OverloadError:
                self._names[name] = None  # nothing else would ever delete it
                await asyncio.sleep(_RETRY_S)
            except HeadraceError as error:
                _logger.warning("transient segment %s stays behind: %s", name, error)
