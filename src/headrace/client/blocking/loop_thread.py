"""An event loop in a thread of its own, for callers that have none."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, Final, TypeVar

from headrace.client.forks import OfOneProcess
from headrace.errors import ClosedError
from headrace.runtime.blocking import ThreadHandle, start_thread
from headrace.runtime.loops import LoopKind, loop_factory

T = TypeVar("T")

_EXIT_CHECK_S: Final = 0.2
"""How often the thread looks whether the program is ending, so that a client that is not closed cannot block
the exit.
"""


class LoopThread(OfOneProcess):
    """Runs coroutines on its loop and gives their results to other threads."""

    _called = "the iterator"
    _endings = frozenset({"finish", "stop"})

    def __init__(self, kind: LoopKind) -> None:
        self._kind = kind
        self._ready = threading.Event()
        self._gate = threading.Lock()
        self._ended = False
        """Nothing is given to the loop any more. Guarded by the gate: what passed it, is executed."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ident = 0
        self._thread: ThreadHandle = start_thread("headrace-client", self._main)
        self._ready.wait()

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        assert self._loop is not None
        return self._loop

    def _main(self) -> None:
        loop = loop_factory(self._kind)()
        self._loop = loop
        self._ident = threading.get_ident()
        asyncio.set_event_loop(loop)
        loop.call_soon(self._watch_for_exit)
        loop.call_soon(self._ready.set)
        try:
            loop.run_forever()
            with self._gate:
                self._ended = True
            loop.run_until_complete(_end_tasks())
            loop.run_until_complete(loop.shutdown_asyncgens())
            loop.run_until_complete(_end_tasks())
        finally:
            asyncio.set_event_loop(None)
            loop.close()

    def _watch_for_exit(self) -> None:
        if threading.main_thread().is_alive():
            self.loop.call_later(_EXIT_CHECK_S, self._watch_for_exit)
        else:
            self.loop.stop()

    def run(self, coroutine: Coroutine[Any, Any, T], timeout_s: float | None = None) -> T:
        """Run a coroutine on the loop and return its result. Other threads only.

        Raises:
            TimeoutError: it took too long; it was cancelled.
            ClosedError: the loop was stopped.
        """
        assert threading.get_ident() != self._ident
        future = self._submit(coroutine)
        try:
            return future.result(timeout_s)
        except concurrent.futures.CancelledError:
            raise ClosedError("the client was closed") from None
        except BaseException:
            future.cancel()  # a time-out, or Ctrl-C in the caller
            raise

    def _submit(self, coroutine: Coroutine[Any, Any, T]) -> concurrent.futures.Future[T]:
        """Start a coroutine on the loop. Raises ClosedError: it was stopped, or left behind by a fork."""
        if self._thread.is_alive():  # else the gate may be locked for ever
            with self._gate:
                if not self._ended:
                    return asyncio.run_coroutine_threadsafe(coroutine, self.loop)
        coroutine.close()
        raise ClosedError("the client is closed")

    def finish(self, coroutine: Coroutine[Any, Any, None]) -> None:
        """Run what ends something that has ended anyway with the loop.

        It is not waited for on the loop's own thread, which may be the one that collects garbage.
        """
        with suppress(ClosedError):
            if threading.get_ident() == self._ident:
                self._submit(coroutine)
            else:
                self.run(coroutine)

    def call(self, function: Callable[[], T]) -> T:
        """Call a function on the loop and return its result."""

        async def once() -> T:
            return function()

        return self.run(once())

    def call_soon(self, callback: Callable[[], None]) -> None:
        """Call a function on the loop some time; ClosedError if the loop was stopped."""
        if self._thread.is_alive():  # else the gate may be locked for ever
            with self._gate:
                if not self._ended:
                    self.loop.call_soon_threadsafe(callback)
                    return
        raise ClosedError("the client is closed")

    def stop(self) -> None:
        """Stop the loop and wait for the thread. Idempotent."""
        if self._thread.is_alive():
            with suppress(ClosedError):  # it is ending
                self.call_soon(self.loop.stop)
            self._thread.join()


async def _end_tasks() -> None:
    """Run what the loop was given and cancel what it came to, until there is nothing left."""
    me = asyncio.current_task()
    cancelled: set[asyncio.Task[Any]] = set()
    while True:
        await asyncio.sleep(0)
        tasks = asyncio.all_tasks() - {me}
        if not tasks:
            return
        for task in tasks - cancelled:
            task.cancel()
        cancelled |= tasks
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
