"""Looks at what is reached over a loop from code that may wait, wherever it runs."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager
from typing import Any, Final, Generic, TypeVar

from headrace.runtime.blocking import start_thread

R = TypeVar("R")
T = TypeVar("T")

_IDLE_S: Final = 0.2


def look(work: Callable[[], Coroutine[Any, Any, R]]) -> R:
    """Run ``work`` on a loop in a thread of its own; return its result, or raise what it raises."""
    results: list[R] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(asyncio.run(work()))
        except BaseException as error:  # noqa: BLE001 - raised again in the thread of the caller
            errors.append(error)

    start_thread("log-look", run).join()
    if errors:
        raise errors[0]
    return results[0]


class Looks(Generic[R]):
    """Looks one after another on a loop in a thread. What ``make`` opens there is shared by those that follow
    each other; it is closed, and the thread ends, when none came for a moment.
    """

    def __init__(self, make: Callable[[], AbstractAsyncContextManager[R]]) -> None:
        self._make = make
        self._asked: queue.SimpleQueue[tuple[Callable[[R], Awaitable[Any]], Future[Any]]] = (
            queue.SimpleQueue()
        )
        self._changing = threading.Lock()
        self._runs = False

    def run(self, work: Callable[[R], Awaitable[T]]) -> T:
        """Return the result of ``work``, or raise what it raises."""
        answered: Future[T] = Future()
        with self._changing:
            self._asked.put((work, answered))
            if not self._runs:
                self._runs = True
                start_thread("log-looks", lambda: asyncio.run(self._serve()))
        return answered.result()

    async def _serve(self) -> None:
        async with self._make() as opened:
            while True:
                try:
                    work, answered = self._asked.get(timeout=_IDLE_S)  # nothing else is on this loop
                except queue.Empty:
                    with self._changing:
                        if self._asked.empty():
                            self._runs = False
                            return
                    continue
                try:
                    answered.set_result(await work(opened))
                except BaseException as error:  # noqa: BLE001 - raised again in the thread of the caller
                    answered.set_exception(error)
