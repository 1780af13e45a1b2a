"""A session with the coordinator that is begun anew when it is over: the nodes of logs do not hang on one."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterator
from typing import TypeVar

from headrace.coordination.contract import Coordinator, Session
from headrace.coordination.node import Node
from headrace.errors import (
    AccessDeniedError,
    PreconditionError,
    SessionExpiredError,
    UnknownOutcomeError,
    UnreachableError,
    WalWriteError,
)

T = TypeVar("T")


class RenewedSession:
    """``Nodes`` over one session at a time, begun at its first use. Used on one loop.

    Every call raises UnreachableError, PreconditionError or AccessDeniedError if none can be begun.
    """

    def __init__(self, coordinator: Coordinator) -> None:
        self._coordinator = coordinator
        self._session: Session | None = None
        self._beginning = asyncio.Lock()

    async def create(
        self, path: str, data: bytes, *, ephemeral: bool = False, sequential: bool = False
    ) -> str:
        return await self._run(
            lambda session: session.create(path, data, ephemeral=ephemeral, sequential=sequential)
        )

    async def read(self, path: str) -> Node | None:
        return await self._run(lambda session: session.read(path))

    async def children(self, path: str) -> list[str]:
        return await self._run(lambda session: session.children(path))

    async def write(self, path: str, data: bytes, version: int) -> int:
        return await self._run(lambda session: session.write(path, data, version))

    async def delete(self, path: str, version: int) -> None:
        await self._run(lambda session: session.delete(path, version))

    async def close(self) -> None:
        """End the session. Idempotent."""
        async with self._beginning:
            session, self._session = self._session, None
            if session is not None:
                await session.close()

    async def _run(self, call: Callable[[Session], Awaitable[T]]) -> T:
        session = await self._begin(None)
        try:
            return await call(session)
        except SessionExpiredError:  # nothing was done
            return await call(await self._begin(session))

    async def _begin(self, ended: Session | None) -> Session:
        async with self._beginning:
            if self._session is None or self._session is ended:
                self._session = None
                self._session = await self._coordinator.open()
            return self._session


@contextlib.contextmanager
def wal_errors(place: str) -> Iterator[None]:
    """Turn what a coordinator that cannot be used raises into WalWriteError; ``place``: for the message."""
    try:
        yield
    except WalWriteError:
        raise
    except (
        AccessDeniedError,
        PreconditionError,
        SessionExpiredError,
        UnknownOutcomeError,
        UnreachableError,
    ) as error:
        raise WalWriteError(f"{place}: {error}") from error
