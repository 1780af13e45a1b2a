"""What a writer returns for events: it becomes durable, or fails with an error.

One object stands for a whole block of events, not for one event, and costs no future unless a caller waits.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator, Iterable

from headrace.client import forks
from headrace.errors import OpenedBeforeForkError


class Ack:
    """Done when everything it stands for is durable. Await it any number of times, or not at all.

    Cancelling a waiter does not undo the write. The writer splits and settles it; used on one loop.
    """

    __slots__ = ("_callbacks", "_error", "_generation", "_open_parts", "_waiters", "is_told")

    def __init__(self, parts: int = 0) -> None:
        self.is_told = False
        """A caller was given the error, if there is one."""
        self._open_parts = parts
        self._generation = forks.generation
        self._error: BaseException | None = None
        self._waiters: list[asyncio.Future[None]] | None = None
        self._callbacks: list[Callable[[Ack], None]] | None = None

    def __repr__(self) -> str:
        state = (
            "not durable yet" if self._open_parts else f"failed: {self._error}" if self._error else "durable"
        )
        return f"<headrace.aio.Ack: {state}>"

    def done(self) -> bool:
        """Tell whether it is settled, either way.

        Raises:
            OpenedBeforeForkError: it was not when this process was forked, and will not be here.
        """
        if self._open_parts and self._generation != forks.generation:
            raise OpenedBeforeForkError("the event was written before a fork: ask the process that wrote it")
        return self._open_parts == 0

    def error(self) -> BaseException | None:
        """Return why (a part of) it failed, or None: durable, or not settled yet."""
        self.is_told |= self._error is not None
        return self._error

    def add_done_callback(self, callback: Callable[[Ack], None]) -> None:
        """Call ``callback(self)`` once it is settled, or at once if it is.

        What it raises goes to the loop's exception handler: the connection that settles it must not fail.
        """
        if self.done():
            self._call(callback)
        elif self._callbacks is None:
            self._callbacks = [callback]
        else:
            self._callbacks.append(callback)

    def __await__(self) -> Generator[asyncio.Future[None], None, None]:
        if not self.done():
            waiter = asyncio.get_running_loop().create_future()
            if self._waiters is None:
                self._waiters = [waiter]
            else:
                self._waiters.append(waiter)
            yield from waiter
        if self._error is not None:
            self.is_told = True
            raise self._error

    # ------------------------------------------------------------------------------ for the writer

    def add_parts(self, count: int) -> None:
        """Wait for ``count`` more parts: the writer has divided what this stands for."""
        self._open_parts += count

    def settle_part(self, error: BaseException | None = None) -> None:
        """One part is durable, or failed with ``error``; the first error counts."""
        assert self._open_parts > 0
        if error is not None and self._error is None:
            self._error = error
        self._open_parts -= 1
        if self._open_parts:
            return
        if self._waiters is not None:
            waiters, self._waiters = self._waiters, None
            for waiter in waiters:
                if not waiter.done():
                    waiter.set_result(None)
        if self._callbacks is not None:
            callbacks, self._callbacks = self._callbacks, None
            for callback in callbacks:
                self._call(callback)

    def _call(self, callback: Callable[[Ack], None]) -> None:
        try:
            callback(self)
        except Exception as error:  # noqa: BLE001 - whatever a caller's own code raises
            asyncio.get_running_loop().call_exception_handler(
                {"message": f"a callback of an acknowledgement failed: {callback!r}", "exception": error}
            )


def settle_parts(acks: Iterable[Ack]) -> None:
    """One part of each is durable. A block of many batches brings this to all of them, so it is quick for
    those that wait for more.
    """
    for ack in acks:
        if ack._open_parts > 1:  # noqa: SLF001 - our own class
            ack._open_parts -= 1  # noqa: SLF001 - as above
        else:
            ack.settle_part()
