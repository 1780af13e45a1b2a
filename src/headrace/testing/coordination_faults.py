"""A coordinator across a network that is slow and loses things, for the members of one simulation.

Fault model:

* A call takes some time before it has its effect, and some until its answer arrives.
* The answer to a change may be lost: the change is made, the caller gets ``ConnectionLostError``.
* A session may be suspended: nothing of it arrives, neither calls nor signs of life. Calls fail after a while
  with ``ConnectionLostError``. If it lasts for the time-out, the session expires.
* A session may expire at any moment, and the member learns of it late.
* Watches fire late and merged.
* The clock of a member may be slow or fast, and its leases too long or too short by that much.

Sessions live as long as their members give signs of life. The coordinator itself lives outside of all
simulated processes: a process that is paused or killed gives none.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextvars import Context
from dataclasses import dataclass
from typing import TypeVar

from headrace.coordination.lease import Lease
from headrace.coordination.memory import MemoryCoordinator, MemorySession
from headrace.coordination.node import Node
from headrace.errors import ConnectionLostError, HeadraceError, SessionExpiredError, UnreachableError
from headrace.runtime.entropy import Entropy
from headrace.runtime.supervisor import Supervisor

T = TypeVar("T")


@dataclass(slots=True)
class CoordinationFaults:
    """What may happen. May be changed at any time."""

    delay_s_max: float = 0.002
    lost_replies_percent: int = 0
    """Of changes."""
    watch_delay_s_max: float = 0.002
    session_timeout_s: float = 6.0
    margin_s: float = 1.0
    """By which a lease ends before its session may."""
    drift_percent_max: int = 0
    """By how much the clock of a member may be wrong. The margin allows for less than its part of a lease."""


class FaultyCoordinator:
    """One coordinator for all members; every ``open`` is a session that can be suspended or expired."""

    def __init__(self, entropy: Entropy, faults: CoordinationFaults | None = None) -> None:
        self.faults = faults or CoordinationFaults()
        self.entropy = entropy
        self.sessions: list[FaultySession] = []
        """Those that have not ended, oldest first."""
        self.partitioned = False
        """While True no session is opened."""
        self._inner = MemoryCoordinator()

    async def open(self) -> FaultySession:
        sent = asyncio.get_running_loop().time()
        await self.pause()
        if self.partitioned:
            raise UnreachableError("the coordinator does not answer")
        session = FaultySession(self, await self._inner.open(), sent)
        self.sessions.append(session)
        await self.pause()
        return session

    async def observe(self) -> MemorySession:
        """Open a session without faults, for whoever judges."""
        return await self._inner.open()

    def draw_lease_s(self) -> float:
        """Return how long the lease of a new session lasts by a true clock."""
        faults = self.faults
        lease_s = faults.session_timeout_s - faults.margin_s
        if not faults.drift_percent_max:
            return lease_s
        percent = self.entropy.randbelow(2 * faults.drift_percent_max + 1) - faults.drift_percent_max
        return lease_s * (1 + percent / 100)

    async def pause(self, s_max: float | None = None) -> None:
        """Let some time pass on the network."""
        s_max = self.faults.delay_s_max if s_max is None else s_max
        await asyncio.sleep(s_max * self.entropy.random())


class FaultySession:
    """One session; see the contract and the fault model."""

    def __init__(self, coordinator: FaultyCoordinator, inner: MemorySession, sent: float) -> None:
        faults = coordinator.faults
        self.lease = Lease(coordinator.draw_lease_s())
        self.lease.renew(sent)
        self._loop = asyncio.get_running_loop()
        self._coordinator = coordinator
        self._inner = inner
        self._supervisor = Supervisor("session")
        self._reachable = asyncio.Event()
        self._reachable.set()
        self._heard = self._loop.time()
        self._expired = False
        self._closed = False
        self._supervisor.spawn("signs of life", self._live(faults.session_timeout_s / 3))
        self._plan_expiry()

    # ---------------------------------------------------------------------------------- faults

    def suspend(self) -> None:
        """Cut the connection, until :meth:`resume`."""
        self._reachable.clear()

    def resume(self) -> None:
        self._reachable.set()

    def expire(self) -> None:
        """End the session at the coordinator. The member learns of it by its next call. Idempotent."""
        if not self._expired:
            self._expired = True
            self._coordinator.sessions.remove(self)
            self._inner.expire()

    # ---------------------------------------------------------------------------------- contract

    async def create(
        self, path: str, data: bytes, *, ephemeral: bool = False, sequential: bool = False
    ) -> str:
        return await self._change(
            lambda: self._inner.create(path, data, ephemeral=ephemeral, sequential=sequential)
        )

    async def read(self, path: str) -> Node | None:
        return await self._call(lambda: self._inner.read(path))

    async def children(self, path: str) -> list[str]:
        return await self._call(lambda: self._inner.children(path))

    async def write(self, path: str, data: bytes, version: int) -> int:
        return await self._change(lambda: self._inner.write(path, data, version))

    async def delete(self, path: str, version: int) -> None:
        await self._change(lambda: self._inner.delete(path, version))

    def watch(self, path: str) -> AsyncIterator[None]:
        return self._late(self._inner.watch(path))

    def watch_children(self, path: str) -> AsyncIterator[None]:
        return self._late(self._inner.watch_children(path))

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        self.lease.end()
        await self._supervisor.stop()
        if self._reachable.is_set():
            self.expire()

    # ---------------------------------------------------------------------------------- inside

    async def _change(self, call: Callable[[], Awaitable[T]]) -> T:
        answer = await self._call(call)
        if self._coordinator.entropy.randbelow(100) < self._coordinator.faults.lost_replies_percent:
            raise ConnectionLostError("the reply was lost")
        return answer

    async def _call(self, call: Callable[[], Awaitable[T]]) -> T:
        self._check()
        sent = self._loop.time()
        await self._coordinator.pause()
        await self._reach()
        self._check()
        self._heard = self._loop.time()
        try:
            answer: T | HeadraceError = await call()
        except HeadraceError as error:
            answer = error
        await self._coordinator.pause()
        await self._reach()
        if isinstance(answer, SessionExpiredError):
            self.lease.end()
        self.lease.renew(sent)
        if isinstance(answer, HeadraceError):
            raise answer
        return answer

    async def _reach(self) -> None:
        if not self._reachable.is_set():
            await asyncio.sleep(self._coordinator.faults.session_timeout_s / 3)
            raise ConnectionLostError("the connection with the coordinator broke")

    async def _late(self, changes: AsyncIterator[None]) -> AsyncIterator[None]:
        try:
            async for _ in changes:
                await self._coordinator.pause(self._coordinator.faults.watch_delay_s_max)
                await self._reachable.wait()
                self._check()
                yield
        except SessionExpiredError:
            await self._reachable.wait()  # of an end nothing arrives either
            raise

    async def _live(self, interval_s: float) -> None:
        pause_s = interval_s
        while True:
            await asyncio.sleep(pause_s)
            pause_s = interval_s
            try:
                await self._call(lambda: self._inner.read("alive"))
            except SessionExpiredError:
                return
            except ConnectionLostError:
                await self._reachable.wait()
                pause_s = 0.0  # a client that is connected again says so

    def _plan_expiry(self) -> None:
        """Look again when the session would be over, as the coordinator and in no process."""
        due = self._heard + self._coordinator.faults.session_timeout_s
        self._loop.call_at(due, self._on_due, context=Context())

    def _on_due(self) -> None:
        if self._expired:
            return
        if self._loop.time() >= self._heard + self._coordinator.faults.session_timeout_s:
            self.expire()
        else:
            self._plan_expiry()

    def _check(self) -> None:
        if self._closed:
            raise SessionExpiredError("the session with the coordinator was closed")
        if self._expired and self._reachable.is_set():
            self.lease.end()
            raise SessionExpiredError("the session with the coordinator has expired")
