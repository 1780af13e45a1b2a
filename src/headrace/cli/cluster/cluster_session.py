"""The coordinator of a cluster as a verb reaches it, and one short session with it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from headrace.coordination.contract import Coordinator, Session
from headrace.coordination.coordinators import make_coordinator
from headrace.coordination.location import CoordinatorLocation
from headrace.coordination.zookeeper.config import ZooKeeperConfig
from headrace.errors import InvalidArgumentError
from headrace.runtime import settings_sources
from headrace.runtime.blocking import SystemThreads

R = TypeVar("R")

_ASKED: Final = "--coordinator zk://HOST:PORT/ROOT (HEADRACE_COORDINATOR)"
_VARIABLES: Final = "HEADRACE_ZOOKEEPER_"
"""What variables of the section ``zookeeper`` begin with: those of processes are those of verbs."""


def find_location(coordinator: str | None) -> CoordinatorLocation:
    """Return where the coordinator of a cluster is.

    Raises InvalidArgumentError: none was named, or it is of one process.
    """
    if coordinator is None:
        raise InvalidArgumentError(f"no cluster was named: name what it agrees through with {_ASKED}")
    location = CoordinatorLocation.parse(coordinator)
    if location.scheme == "memory":
        raise InvalidArgumentError(f"memory:// is of one process, and no cluster: name one with {_ASKED}")
    return location


def connect(coordinator: str | None) -> Coordinator:
    """Return a coordinator that other processes reach, with the settings of the environment.

    Raises as :func:`find_location`.
    """
    location = find_location(coordinator)
    config = settings_sources.load(ZooKeeperConfig, environment=os.environ, variable_prefix=_VARIABLES)
    return make_coordinator(location, SystemThreads(), config)


def in_session(coordinator: str | None, ask: Callable[[Session], Awaitable[R]]) -> R:
    """Return what ``ask`` returns of a session with the coordinator.

    Raises:
        InvalidArgumentError: no coordinator was named, or none that other processes reach.
        UnreachableError: it does not answer.
    """
    connected = connect(coordinator)

    async def run() -> R:
        session = await connected.open()
        try:
            return await ask(session)
        finally:
            await session.close()

    return asyncio.run(run())
