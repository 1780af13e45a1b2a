"""What the end of a client waits for: its writers and readers of groups that were not closed, and changes in
flight.

A client that is closed closes its writers first: what they took is durable then, or the client says of which
stream how much is not. A loop that ends before its client was closed (that of ``asyncio.run``, or that of a
client for threads at the end of a program) does the same, and says it in a log line: there is no caller.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Protocol, TypeVar

from headrace.errors import ClosedError, HeadraceError, LostWrites, NotDurableError
from headrace.runtime import logs

_log = logs.logger(__name__)


class OpenWriter(Protocol):
    """A writer as its client sees it."""

    @property
    def place(self) -> str:
        """``scope/stream``."""

    @property
    def unit(self) -> str:
        """What it counts: events or bytes."""

    @property
    def lost(self) -> int:
        """How many it took that are not known to be durable and never will be, without a caller notified."""

    async def finish(self) -> None:
        """Make everything durable and leave. Cancelled, it may be called again. Raises HeadraceError."""

    def abandon(self, error: HeadraceError) -> None:
        """Leave now; what is not durable fails with ``error``."""


W = TypeVar("W", bound=OpenWriter)


class OpenWriters:
    """Used on one loop."""

    def __init__(self, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._writers: dict[OpenWriter, None] = {}
        self._changes: Counter[str] = Counter()
        """Requests in flight that change something, by what they change."""
        self._no_changes: asyncio.Future[None] | None = None
        self._lost: Counter[tuple[str, str]] = Counter()
        self._cause: BaseException | None = None
        self._guard: AsyncGenerator[None, None] | None = None
        self._closing = False

    def add(self, writer: W) -> W:
        """Remember a writer until it is closed. Raises ClosedError: the client is closing, or closed."""
        if self._closing:
            raise ClosedError("the client is closed")
        self._writers[writer] = None
        if self._guard is None:
            self._guard = self._watch()
            with suppress(StopIteration):
                self._guard.__anext__().send(None)
        return writer

    def forget(self, writer: OpenWriter) -> None:
        """A writer was closed. Harmless if it is not known."""
        self._writers.pop(writer, None)

    @contextmanager
    def change(self, place: str) -> Iterator[None]:
        """A request that changes ``place`` is in flight as long as the block."""
        self._changes[place] += 1
        try:
            yield
        finally:
            self._changes[place] -= 1
            if not self._changes[place]:
                del self._changes[place]
            if not self._changes and self._no_changes is not None and not self._no_changes.done():
                self._no_changes.set_result(None)

    async def close(self) -> None:
        """Wait until everything is durable, up to the timeout; what is not then fails. Idempotent.

        Cancelled, it may be called again and waits for the rest.
        """
        self._closing = True
        endings = {asyncio.ensure_future(each.finish()): each for each in self._writers}
        waits = [*endings, asyncio.ensure_future(self._wait_changes())]
        try:
            await asyncio.wait(waits, timeout=self._timeout_s)
        finally:
            for task in waits:
                task.cancel()
            await asyncio.gather(*waits, return_exceptions=True)
        for task, writer in endings.items():
            self._end(writer, task)
        for place, count in self._changes.items():  # their callers are notified when connections are closed
            self._lost[place, "changes"] += count
        guard, self._guard = self._guard, None
        if guard is not None:
            await guard.aclose()

    def _end(self, writer: OpenWriter, finished: asyncio.Task[None]) -> None:
        error: BaseException | None
        if finished.cancelled():
            error = ClosedError(f"the client was closed; no acknowledgement within {self._timeout_s:g} s")
        else:
            error = finished.exception()
        if error is not None:
            writer.abandon(error if isinstance(error, HeadraceError) else ClosedError(repr(error)))
        self.forget(writer)
        if writer.lost:
            self._lost[writer.place, writer.unit] += writer.lost
            self._cause = self._cause or error

    async def _wait_changes(self) -> None:
        while self._changes:
            self._no_changes = asyncio.get_running_loop().create_future()
            await self._no_changes

    def take_loss(self) -> NotDurableError | None:
        """Return, once, what :meth:`close` found not to be durable."""
        return _loss_of(self._lost, self._cause)

    async def _watch(self) -> AsyncGenerator[None, None]:
        """Close when the loop ends: it closes the asynchronous generators that are left."""
        try:
            yield
        finally:
            await self._end_with_loop()

    async def _end_with_loop(self) -> None:
        if self._guard is None:
            return  # the client was closed
        self._guard = None  # it cannot be closed from within
        await self.close()
        if (loss := self.take_loss()) is not None:
            _log.error("a client was not closed before its loop ended: %s", loss)


def _loss_of(lost: Counter[tuple[str, str]], cause: BaseException | None) -> NotDurableError | None:
    if not lost:
        return None
    counts: Mapping[tuple[str, str], int] = dict(lost)
    lost.clear()
    error = NotDurableError([LostWrites(place, count, unit) for (place, unit), count in counts.items()])
    error.__cause__ = cause
    return error
