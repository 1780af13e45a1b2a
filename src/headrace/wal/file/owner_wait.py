"""Waiting until the lock of a log's owner file is free: each process holds it for moments only."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar

from headrace.errors import DirectoryLockedError
from headrace.runtime.blocking import BlockingWork

T = TypeVar("T")

#: A process that holds the lock for longer is taken to be stalled.
LOCK_WAIT_S: Final = 10.0
LOCK_STEP_S: Final = 0.005


async def run_when_unlocked(work: BlockingWork, attempt: Callable[..., T], *args: Any) -> T:
    """Perform ``attempt(*args)`` away from the loop, again and again while the lock is taken.

    Args:
        work: performs it.
        attempt: raises ``DirectoryLockedError`` at once, with nothing done, if the lock is taken.
        args: what ``attempt`` is called with.

    Raises:
        DirectoryLockedError: the lock has been taken for ``LOCK_WAIT_S``; nothing was done.
        Exception: whatever else ``attempt`` raises.
    """
    return await wait_for_lock(lambda: work.run(attempt, *args))


async def wait_for_lock(attempt: Callable[[], Awaitable[T]]) -> T:
    """Await ``attempt()`` again and again while the lock is taken. Each one may decide anew what it does.

    Raises:
        DirectoryLockedError: the lock has been taken for ``LOCK_WAIT_S``; nothing was done.
        Exception: whatever else ``attempt`` raises.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + LOCK_WAIT_S
    while True:
        try:
            return await attempt()
        except DirectoryLockedError:
            if loop.time() > deadline:
                raise
        await asyncio.sleep(LOCK_STEP_S)
