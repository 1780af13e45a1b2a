"""Whether a container serves, and the end of that: in order, or once at the first failure."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from headrace.errors import ContainerOfflineError, CorruptionError, FencedOutError, HeadraceError
from headrace.segmentstore.segment_names import is_internal
from headrace.wal.contract import Wal


class OwnershipTerm:
    """The time in which one process is the owner of a container. Begins when recovery is complete.

    The container itself uses its own segments before, and until the log is closed.
    """

    def __init__(self, container_id: int, wal: Wal) -> None:
        self._container_id = container_id
        self._wal = wal
        self._serves_itself = False
        self._finishing: asyncio.Timeout | None = None
        self._log_closed = False
        self.find_successor: Callable[[], Awaitable[FencedOutError | None]] | None = None
        """Asks the store for a system that was rebuilt from it, once that is there to be asked."""
        self.online = False
        """Whether calls are accepted."""
        self.ended = False
        """Whether a part has failed: later errors prove nothing."""

    def check_online(self, name: str = "") -> None:
        """Refuse calls while offline. Those about the container's own segments, which only it makes, are
        accepted from its start until the log is closed.

        Raises:
            ContainerOfflineError
        """
        if not self.online and not (self._serves_itself and is_internal(name)):
            raise ContainerOfflineError(f"container {self._container_id} is not running here now")

    async def check_owner(self) -> None:
        """Refuse an answer without a write if this process may not be the owner any more.

        What the caller found before this call was true then; what it finds meanwhile or later may not be. A
        write is fenced by itself.

        Raises:
            FencedOutError: a newer owner has taken the container.
            ContainerOfflineError: the ownership term has ended.
        """
        if await self._wal.is_fenced():
            raise FencedOutError(f"a newer owner has taken container {self._container_id}")
        if self.ended or self._log_closed:  # last: a log that was closed meanwhile cannot tell
            raise ContainerOfflineError(f"container {self._container_id} has ended here")

    def prepare(self) -> None:
        """The log is recovered: the container uses its own segments, unless a part has failed already."""
        self._serves_itself = not self.ended

    def begin(self) -> None:
        """Recovery is complete: accept calls, unless a part has failed already."""
        self.online = not self.ended

    def go_offline(self) -> bool:
        """Accept no calls from now on; return whether they were accepted until now."""
        was_online, self.online = self.online, False
        return was_online

    @property
    def is_finishing(self) -> bool:
        return self._finishing is not None

    @asynccontextmanager
    async def finishing(self, limit_s: float) -> AsyncIterator[None]:
        """The last work of a container that stops in order.

        Raises:
            TimeoutError: it takes longer than ``limit_s``, or the ownership term has ended.
        """
        try:
            async with asyncio.timeout(limit_s) as self._finishing:
                yield
        finally:
            self._finishing = None

    def end(self) -> bool:
        """A part failed: accept nothing, finish nothing. Return whether it is the first one."""
        self.online = self._serves_itself = False
        if self.ended:
            return False
        self.ended = True
        if self._finishing is not None and not self._finishing.expired():
            self._finishing.reschedule(0.0)  # nothing is left to wait for
        return True

    def close(self) -> None:
        """The log is about to be closed: the owner of the container cannot be determined any more."""
        self._log_closed = True
        self._serves_itself = False

    async def judge(self, error: BaseException) -> BaseException:
        """Return the error to report. Chunks that a successor deleted, or a log that it truncated, look like
        damage: the owner record decides, and it names the successor before that can change anything. So does
        the store, if the successor is of a rebuilt system, which has another log.
        """
        if not isinstance(error, CorruptionError):
            return error
        if await self._wal.is_fenced():
            return FencedOutError(f"a newer owner has taken container {self._container_id}")
        rebuilt = None if self.find_successor is None else await self.find_successor()
        return rebuilt or error


def describe_failure(error: BaseException) -> str:
    """The reason why a container ended, in one line."""
    if isinstance(error, HeadraceError):
        return f"{type(error).__name__}: {error}"
    return f"unexpected {type(error).__name__}: {error}"
