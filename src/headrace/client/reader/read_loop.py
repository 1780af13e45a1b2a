"""A loop over events with a reader of its own: opened by its first event, closed when the loop is left."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from typing import Self

from headrace.client.forks import OfOneProcess
from headrace.client.reader.event_batch import Event
from headrace.client.reader.event_reader import EventReader


class ReadLoop(OfOneProcess, AsyncIterator[Event]):
    """Made by :meth:`Client.read`. After a cancelled wait, or an error, it goes on as its reader does.

    A loop that nothing refers to any more has been left.
    """

    def __init__(self, place: str, open_reader: Callable[[], Awaitable[EventReader]]) -> None:
        self._place = place
        self._open = open_reader
        self._reader: EventReader | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closed = False

    def __repr__(self) -> str:
        if self._reader is None:
            return f"<headrace.aio.ReadLoop of {self._place}, not begun: use it in 'async for'>"
        return repr(self._reader)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Event:
        if self._closed:
            raise StopAsyncIteration
        if self._reader is None:
            self._loop = asyncio.get_running_loop()
            self._reader = await self._open()
        try:
            return await anext(self._reader)
        except StopAsyncIteration:
            await self.aclose()
            raise

    async def aclose(self) -> None:
        """Leave it: nothing is read any more. Idempotent."""
        self._closed = True
        if self._reader is not None:
            await self._reader.close()

    def __del__(self) -> None:
        if self._reader is not None and self._loop is not None and not self._closed:
            with suppress(RuntimeError):  # the loop has ended, and all that ran on it
                self._loop.call_soon_threadsafe(self._reader.stop)
