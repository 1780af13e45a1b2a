"""A simulated machine: its disk and clock outlive the processes that run on it, one after the other."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextvars import copy_context
from typing import Any, TypeVar

from headrace.runtime.context import Runtime
from headrace.runtime.entropy import SeededEntropy
from headrace.testing.blocking import SimulatedThreads
from headrace.testing.clock import SimulatedClock
from headrace.testing.disk import SimulatedDisk
from headrace.testing.failures import SimulationError
from headrace.testing.filesystem import SimulatedFilesystem
from headrace.testing.loop import SimulatedLoop
from headrace.testing.network import SimulatedNetwork
from headrace.testing.process import CURRENT_PROCESS, SimulatedProcess

T = TypeVar("T")


class HostDownError(SimulationError):
    """The process that should have given an answer was killed."""


class SimulatedHost:
    """One machine with at most one process of ours at a time."""

    def __init__(
        self,
        name: str,
        loop: SimulatedLoop,
        network: SimulatedNetwork,
        disk: SimulatedDisk,
        entropy: SeededEntropy,
    ) -> None:
        self.name = name
        self.disk = disk
        self.clock = SimulatedClock(loop.machine_time)
        self.process: SimulatedProcess | None = None
        self._loop = loop
        self._network = network
        self._entropy = entropy
        self._incarnations = 0
        self._runtime: Runtime | None = None
        disk.on_power_loss(self._on_power_loss)

    # ---- life

    @property
    def is_up(self) -> bool:
        return self.process is not None and self.process.alive

    def boot(self) -> Runtime:
        """Start a process, after a power loss on what the disk still holds; return its surroundings."""
        assert not self.is_up
        if not self.disk.powered:
            self.disk.restore_power()
        self._network.switch_on(self.name)
        self._incarnations += 1
        self.process = process = SimulatedProcess(self.name, self._incarnations)
        entropy = self._entropy.fork(f"incarnation-{self._incarnations}")
        filesystem = SimulatedFilesystem(self.disk)
        process.on_kill(filesystem.kill)
        threads = SimulatedThreads(entropy.fork("threads"), self.disk.take_cost_s)
        self._runtime = Runtime(self.clock, entropy.fork("program"), filesystem, threads)
        self._loop.trace.add(self.name, "boot", process=process.name)
        return self._runtime

    def kill(self) -> None:
        """Kill the process, as ``kill -9`` does: what it wrote stays, nothing of it runs any more.
        Idempotent.
        """
        if self.is_up:
            assert self.process is not None
            self._loop.trace.add(self.name, "kill", process=self.process.name)
            self.process.kill()

    def pause(self) -> None:
        """Run nothing of the process until :meth:`resume`, as a machine that swaps or a stopped container."""
        assert self.is_up
        assert self.process is not None
        self._loop.trace.add(self.name, "pause", process=self.process.name)
        self.process.paused = True

    def resume(self) -> None:
        """Let a paused process go on. Idempotent."""
        if self.process is not None and self.process.paused:
            self._loop.trace.add(self.name, "resume", process=self.process.name)
            self.process.paused = False
            self._loop.unpark()

    def lose_power(self) -> None:
        """Lose power now: the process is gone, and with it whatever was not synced."""
        if self.disk.powered:
            self.disk.lose_power()

    # ---- work

    @property
    def runtime(self) -> Runtime:
        """The surroundings of the running process."""
        assert self.is_up
        assert self._runtime is not None
        return self._runtime

    def spawn(self, name: str, coroutine: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Start a task of the process. It dies with it; if it fails, it has to be awaited."""
        assert self.is_up
        context = copy_context()
        context.run(CURRENT_PROCESS.set, self.process)
        return self._loop.create_task(coroutine, name=f"{self.name}/{name}", context=context)

    async def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run ``coroutine`` in the process, from outside of it, and return its result.

        Raises:
            HostDownError: the process was killed before it answered.
        """
        assert CURRENT_PROCESS.get() is not self.process
        process = self.process
        assert process is not None
        task = self.spawn("run", coroutine)
        answer: asyncio.Future[None] = self._loop.create_future()

        def wake(_: object = None) -> None:
            if not answer.done():
                answer.set_result(None)

        task.add_done_callback(wake, context=copy_context())
        process.on_kill(wake)
        try:
            await answer
        except asyncio.CancelledError:
            task.cancel()
            raise
        if not task.done() or not process.alive:
            raise HostDownError(f"{self.name} was killed")
        return task.result()

    def _on_power_loss(self) -> None:
        self._network.switch_off(self.name)
        if self.process is not None:
            self.process.kill()
