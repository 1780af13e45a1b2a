"""How a writer ends: once, with everything durable, or with an error that says so.

A close that is cancelled has done nothing that the next one, or a flush, could not go on with.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from types import TracebackType
from typing import Protocol, Self

from headrace.client.block_exit import close_at_exit
from headrace.client.forks import OfOneProcess
from headrace.client.open_writers import OpenWriters
from headrace.client.writer.ack import Ack
from headrace.errors import ClosedError, HeadraceError


class Face(Protocol):
    """A face of a writer for threads, on the loop of the writer."""

    def on_stop(self) -> None:
        """Nothing is taken after this call: hand over what was given so far."""

    def count_lost(self) -> int:
        """Return how much was given that is not known to be durable, if no caller was notified."""


class ClosableWriter(OfOneProcess, ABC):
    """Takes things and makes them durable until it is stopped. Used on one loop."""

    unit = "events"

    def __init__(self, place: str, open_writers: OpenWriters) -> None:
        self.place = place
        self.stopped = False
        """It takes no more: it is closing or closed, has failed or ended. Any thread may look."""
        self.face: Face | None = None
        """What gives it everything it takes, if that is not done by callers on its loop."""
        self._open_writers = open_writers
        self._loop = asyncio.get_running_loop()
        self._error: HeadraceError | None = None
        self._failed: list[tuple[int, list[Ack]]] = []
        """How much is not known to be durable and never will be, and what was returned for it."""
        self._error_is_told = False
        self.is_ended = False
        """Closed, and all of it durable, or a caller notified that it is not. Any thread may look."""

    @property
    def error(self) -> HeadraceError | None:
        """Why the writer refuses new events; None if it does not, or because it was closed."""
        return self._error

    @property
    def lost(self) -> int:
        """How much it took that is not known to be durable and never will be, if no caller was notified."""
        if self._error_is_told:
            return 0
        if self.face is not None:
            return self.face.count_lost()
        return sum(count for count, acks in self._failed if not all(ack.is_told for ack in acks))

    def on_told(self) -> None:
        """A caller is given the error of the writer, if it has failed."""
        self._error_is_told |= self._error is not None

    def refusal(self) -> HeadraceError:
        """Return why nothing is taken. The writer is stopped."""
        return self._error or ClosedError(f"the writer of {self.place} is closed")

    @abstractmethod
    async def _settle(self) -> None:
        """Wait until everything taken so far is durable. Raises HeadraceError."""

    def _leave(self) -> None:
        self.abandon(self.refusal())

    @abstractmethod
    def abandon(self, error: HeadraceError) -> None:
        """Leave now. What is not durable fails with ``error``, and the writer with it."""

    def _stop_taking(self) -> None:
        if not self.stopped:
            self.stopped = True
            if self.face is not None:
                self.face.on_stop()

    def _fail(self, error: HeadraceError) -> None:
        """Refuse everything from now on."""
        if self._error is None:
            self._error = error
        self._stop_taking()

    def _check_loop(self) -> None:
        """Nothing would end a wait on another loop. Raises ClosedError."""
        if asyncio.get_running_loop() is not self._loop and not self.is_ended:
            raise self._error or ClosedError(
                f"the writer of {self.place} belongs to another event loop: use it there"
            )

    async def flush(self) -> None:
        """Wait until everything taken so far is durable.

        Raises:
            HeadraceError: why some of it is not. A writer that failed once stays failed.
        """
        self._check_loop()
        try:
            await self._settle()
        except HeadraceError:
            self.on_told()
            raise

    async def close(self) -> None:
        """Make everything durable, then leave. Idempotent.

        Cancelled, it takes nothing any more, and the next call waits for the rest.

        Raises:
            HeadraceError: as :meth:`flush`; the writer is closed even then.
        """
        if self.is_ended:
            return
        self._check_loop()
        try:
            await self.finish()
        except HeadraceError:
            self.on_told()
            self.is_ended = True
            self._open_writers.forget(self)
            raise

    async def finish(self) -> None:
        """As :meth:`close`, for the client: no caller is notified of an error yet."""
        self._stop_taking()
        try:
            await self._settle()
        except HeadraceError:
            self._leave()
            raise
        self._leave()
        self.is_ended = True
        self._open_writers.forget(self)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await close_at_exit(self.close, error)
