"""What runs for the time of one session with the coordinator."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final

from headrace.coordination.contract import Coordinator, Session
from headrace.errors import DataCorruptionError, HeadraceError, SessionExpiredError, UnknownOutcomeError
from headrace.runtime.entropy import Entropy
from headrace.runtime.logs import logger
from headrace.runtime.retry import RetryPolicy

_log = logger(__name__)

RETRY: Final = RetryPolicy(initial_s=0.1, multiplier=2.0, delay_max_s=2.0, attempts=1)


InSession = Callable[[Session], Coroutine[Any, Any, None]]
"""What is to run in each session, until it is over."""


async def serve_sessions(
    coordinator: Coordinator, entropy: Entropy, serve: Callable[[Session], Awaitable[None]]
) -> None:
    """Open a session, serve it until it is over, and again, until cancelled. Each one is closed."""
    failures = 0
    while True:
        try:
            session = await coordinator.open()
        except HeadraceError as error:
            failures += 1
            _log.warning("the coordinator is asked again", error=str(error))
            await asyncio.sleep(RETRY.delay_s(failures, entropy.random()))
            continue
        failures = 0
        try:
            await serve(session)
        finally:
            await session.close()
        _log.warning("the session with the coordinator is over; a new one is begun")
        await asyncio.sleep(RETRY.delay_s(1, entropy.random()))


async def run_until_over(*works: Coroutine[Any, Any, None]) -> None:
    """Run ``works`` side by side until one says that the session is over; then all others are cancelled."""
    try:
        async with asyncio.TaskGroup() as group:
            for work in works:
                group.create_task(work)
    except* SessionExpiredError:
        pass


async def wait_at_most(event: asyncio.Event, timeout_s: float) -> None:
    """Wait for an event, or until the time is over."""
    try:
        async with asyncio.timeout(timeout_s):
            await event.wait()
    except TimeoutError:
        pass


async def ask_until_known(entropy: Entropy, ask: Callable[[], Awaitable[None]]) -> None:
    """Call ``ask`` until it is answered, with growing pauses.

    A node that cannot be read is reported, and what was known before remains.

    Raises:
        SessionExpiredError: the session is over.
    """
    failures = 0
    while True:
        try:
            return await ask()
        except UnknownOutcomeError as error:
            failures += 1
            _log.debug("the coordinator is asked again", error=str(error))
            await asyncio.sleep(RETRY.delay_s(failures, entropy.random()))
        except DataCorruptionError as error:
            _log.error("a node of the cluster is damaged, or of a later version", error=str(error))
            return None
