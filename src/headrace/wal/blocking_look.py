"""Looks at what is reached over a loop from code that may wait, wherever it runs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from headrace.runtime.blocking import start_thread

R = TypeVar("R")


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
