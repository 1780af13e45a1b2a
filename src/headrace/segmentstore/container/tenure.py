"""Whether a container serves, and how that ends: in order, or at the first doubt, and then once for all."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from headrace.errors import ContainerOfflineError, CorruptionError, FencedOutError, HeadraceError
from headrace.wal.contract import Wal


class Tenure:
    """The time for which one process is the owner of a container. Begins when everything is recovered.

    ``catalogue`` is the segment that the container itself still changes while it finishes.
    """

    def __init__(self, container_id: int, wal: Wal, catalogue: str) -> None:
        self._container_id = container_id
        self._wal = wal
        self._catalogue = catalogue
        self._finishing: asyncio.Timeout | None = None
        self._log_closed = False
        self.online = False
        """Whether calls are accepted."""
        self.ended = False
        """Whether some part has failed: nothing that happens from then on proves anything."""

    def check_online(self, name: str = "") -> None:
        """Refuse a call, also about this segment. While the container finishes, it still needs its catalogue.

        Raises:
            ContainerOfflineError
        """
        if not self.online and not (self.is_finishing and name == self._catalogue):
            raise ContainerOfflineError(f"container {self._container_id} is not running here now")

    async def check_owner(self) -> None:
        """Refuse what would be answered without a write, if what was found here may be out of date.

        What the caller had found before it asked was true then; what it finds meanwhile or later may not be.
        A write finds out by itself.

        Raises:
            FencedOutError: a newer owner has taken the container.
            ContainerOfflineError: the tenure has ended.
        """
        if await self._wal.is_fenced():
            raise FencedOutError(f"a newer owner has taken container {self._container_id}")
        if self.ended or self._log_closed:  # asked last: a log that was closed meanwhile does not know
            raise ContainerOfflineError(f"container {self._container_id} has ended here")

    def begin(self) -> None:
        """Everything is recovered: accept calls, unless some part has failed already."""
        self.online = not self.ended

    def leave(self) -> bool:
        """Accept no calls from now on; say whether they were accepted until now."""
        was_online, self.online = self.online, False
        return was_online

    @property
    def is_finishing(self) -> bool:
        return self._finishing is not None

    @asynccontextmanager
    async def finishing(self, limit_s: float) -> AsyncIterator[None]:
        """The last work of a container that stops in order.

        Raises:
            TimeoutError: it takes longer than ``limit_s``, or the tenure has ended.
        """
        try:
            async with asyncio.timeout(limit_s) as self._finishing:
                yield
        finally:
            self._finishing = None

    def end(self) -> bool:
        """Some part failed: accept nothing, finish nothing. Say whether this is the first one."""
        self.online = False
        if self.ended:
            return False
        self.ended = True
        if self._finishing is not None and not self._finishing.expired():
            self._finishing.reschedule(0.0)  # there is nothing left to wait for
        return True

    def close(self) -> None:
        """The log is about to be closed: who owns the container cannot be known here any more."""
        self._log_closed = True

    async def judge(self, error: BaseException) -> BaseException:
        """Say what an error proves. What a successor has collected or cut looks like damage to us: the owner
        record decides, and it names the successor before that can have changed anything.
        """
        if isinstance(error, CorruptionError) and await self._wal.is_fenced():
            return FencedOutError(f"a newer owner has taken container {self._container_id}")
        return error


def describe_failure(error: BaseException) -> str:
    """One line about why a container ended."""
    if isinstance(error, HeadraceError):
        return f"{type(error).__name__}: {error}"
    return f"unexpected {type(error).__name__}: {error}"
