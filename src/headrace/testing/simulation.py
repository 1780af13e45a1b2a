"""Runs a program in a world that a seed decides: loop, network, hosts, disks, wall clocks.

    async def scenario(sim: Simulation) -> None:
        host = sim.host("a")
        await host.run(serve(host.runtime))
        ...

    simulate(seed, scenario)

The same seed gives the same simulation, in every process, with any ``PYTHONHASHSEED``; a failure carries its
seed and the last lines of its trace. Fault model: the sum of those of ``loop``, ``network``, ``disk`` and
``blocking``; by itself a simulation only disturbs the order of things. Faults are what the scenario does to
hosts and network.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import inspect
import logging
import sys
import warnings
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass
from types import CoroutineType
from typing import Any, Final, Generic, TypeVar

from headrace.runtime.collector import is_tuned
from headrace.runtime.entropy import SeededEntropy
from headrace.testing.clock import SimulatedClock
from headrace.testing.disk import DiskConfig, SimulatedDisk
from headrace.testing.failures import ProcessGoneError, SimulationError, UnhandledError
from headrace.testing.host import SimulatedHost
from headrace.testing.loop import SimulatedLoop
from headrace.testing.loop_time import LoopTime
from headrace.testing.network import SimulatedNetwork
from headrace.testing.network_config import NetworkConfig
from headrace.testing.tasks import SimulatedTask
from headrace.testing.trace import Trace

T = TypeVar("T")

CALLBACKS_MAX: Final = 10_000_000
"""Of one simulation: minutes, and a hundred times what the longest of ours has."""

_LINES_SHOWN: Final = 30

#: Virtual seconds that tasks get to end after the scenario has.
_CLEANUP_S: Final = 600.0

#: How many coroutines, and blocks of ``finally`` that await, may lie around the place where a task waits.
_FINALLY_BLOCKS_MAX: Final = 100


@dataclass(frozen=True, slots=True)
class SimulationResult(Generic[T]):
    """The result of one simulation."""

    value: T
    seed: int | str
    trace: Trace
    virtual_seconds: float
    callbacks_run: int


class Simulation:
    """The world of one simulation, as the scenario sees it."""

    def __init__(
        self,
        seed: int | str,
        loop: SimulatedLoop,
        entropy: SeededEntropy,
        network: NetworkConfig | None,
        disk: DiskConfig | None,
    ) -> None:
        self.seed = seed
        self.loop = loop
        self.trace = loop.trace
        self.entropy = entropy.fork("scenario")
        """For the scenario's own choices."""
        self.clock = SimulatedClock(loop.machine_time)
        self.network = SimulatedNetwork(loop, entropy.fork("network"), network, loop.trace)
        self.hosts: dict[str, SimulatedHost] = {}
        self._entropy = entropy
        self._disk_config = disk
        loop.network = self.network

    def host(
        self, name: str, *, disk: SimulatedDisk | None = None, disk_config: DiskConfig | None = None
    ) -> SimulatedHost:
        """Return the host of this name; the first time it is made and booted.

        Give the ``disk`` of another host for two processes on one machine's disk, or one made before.
        """
        host = self.hosts.get(name)
        if host is None:
            disk = self.make_disk(name, disk_config) if disk is None else disk
            host = SimulatedHost(name, self.loop, self.network, disk, self._entropy.fork(f"host-{name}"))
            self.hosts[name] = host
            host.boot()
        return host

    def make_disk(self, name: str, config: DiskConfig | None = None) -> SimulatedDisk:
        """Return a new disk whose calls are traced."""
        config = self._disk_config if config is None else config
        return SimulatedDisk(
            self._entropy.fork(f"disk-{name}"), config, name=f"{name}.disk", trace=self.trace
        )


def simulate(
    seed: int | str,
    scenario: Callable[[Simulation], Coroutine[Any, Any, T]],
    *,
    network: NetworkConfig | None = None,
    disk: DiskConfig | None = None,
    limit_s: float = 3_600.0,
    shuffle: bool = True,
    loop_time: LoopTime | None = None,
    trace_callbacks: bool = False,
    lines_retained: int | None = None,
) -> SimulationResult[T]:
    """Run ``scenario`` to its end on virtual time.

    Args:
        seed: decides everything that is not decided otherwise.
        scenario: the test; its code belongs to no host.
        network: what the network is like; the default is healthy.
        disk: what disks are like unless a host says otherwise.
        limit_s: virtual seconds the scenario may take.
        shuffle: whether ready tasks run in random order; False is asyncio's order, to look at one thing at
        a time.
        loop_time: how the program reads time; None is exact.
        trace_callbacks: whether the trace holds each step of each task. Long.
        lines_retained: how many lines of trace are retained; None: a few thousand.

    Raises:
        SimulationError: a deadlock, a livelock, too long or too much, something forbidden, or an unhandled
            exception.
        BaseException: whatever ``scenario`` raises, with a note that says how to repeat it.
    """
    with _deterministic_collector(), _silenced_dead():
        entropy = SeededEntropy(seed)
        loop = SimulatedLoop(  # type: ignore[abstract]  # what it lacks would be the real world
            entropy.fork("loop"),
            shuffle=shuffle,
            loop_time=loop_time,
            limit_s=limit_s,
            callbacks_max=CALLBACKS_MAX,
            trace_callbacks=trace_callbacks,
            lines_retained=lines_retained,
        )
        simulation = Simulation(seed, loop, entropy, network, disk)
        try:
            value = loop.run_until_complete(scenario(simulation))
            _end_tasks(loop)
            _raise_failures(loop)
        except BaseException as error:
            _explain(error, simulation)
            raise
        finally:
            _bury(loop)
            loop.close()
    return SimulationResult(value, seed, loop.trace, loop.elapsed_s(), loop.callbacks_run)


def _end_tasks(loop: SimulatedLoop) -> None:
    """Cancel what the scenario has left behind and let it end, so that its failures are seen."""
    loop.allow(_CLEANUP_S)

    async def end() -> None:
        me = asyncio.current_task()
        tasks = [task for task in loop.living_tasks() if task is not me]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        await loop.shutdown_asyncgens()

    loop.run_until_complete(end())


def _raise_failures(loop: SimulatedLoop) -> None:
    with loop.entered():
        gc.collect()  # a task that failed unseen says so when it is dropped
    if not loop.failures:
        return
    message, cause = loop.failures[0]
    more = f" (and {len(loop.failures) - 1} more)" if len(loop.failures) > 1 else ""
    raise UnhandledError(f"{message}{more}: {cause!r}") from cause


def _explain(error: BaseException, simulation: Simulation) -> None:
    trace = simulation.trace
    last = "\n".join(f"    {line}" for line in trace.lines[-_LINES_SHOWN:])
    error.add_note(
        f"simulation: seed {simulation.seed!r}, {simulation.loop.elapsed_s():.3f} virtual seconds, "
        f"{trace.count} lines of trace, digest {trace.digest}\n{last}"
    )


def _bury(loop: SimulatedLoop) -> None:
    """End what is left now, in order: killed processes, and after a failure the rest too.

    Otherwise it would end when the garbage collector likes, in the middle of something else. Code of it that
    is executed finds its loop and its process as they were.
    """
    previous = logging.root.manager.disable
    logging.disable(logging.CRITICAL)  # what they log is of no use
    with warnings.catch_warnings(), loop.entered():
        warnings.simplefilter("ignore")  # about coroutines that they start and that are never executed
        for _ in range(2):  # what the first ones begin was not executed, and begins nothing when it is ended
            for task in loop.unfinished_tasks():
                _close(task)
    logging.disable(previous)


def _close(task: SimulatedTask) -> None:
    """End the coroutine of a task that is never executed again. Idempotent."""
    for _ in range(_FINALLY_BLOCKS_MAX):
        if (innermost := _innermost_open(task.get_coro())) is None:
            return
        with contextlib.suppress(Exception, BaseExceptionGroup, ProcessGoneError):
            task.get_context().run(innermost.close)


def _innermost_open(coroutine: Any) -> CoroutineType[Any, Any, Any] | None:
    """Return the innermost coroutine that is not closed along a chain of awaits.

    To be closed first: one that still awaits something in its ``finally`` would fail those around it, and be
    left behind by them.
    """
    found = None
    while isinstance(coroutine, CoroutineType):
        if inspect.getcoroutinestate(coroutine) != inspect.CORO_CLOSED:
            found = coroutine
        coroutine = coroutine.cr_await
    return found


@contextlib.contextmanager
def _deterministic_collector() -> Iterator[None]:
    """Prevent the garbage collector, which runs finalisers, from choosing its own moments.

    The loop collects at moments of its own; what was there before is frozen, so that this is cheap. In a
    process that has frozen its own modules, that stays so: every later collection would go through them.
    """
    was_enabled, was_frozen = gc.isenabled(), is_tuned()
    gc.disable()
    if was_frozen:
        gc.collect()  # else what an earlier run has left would stay for ever
    gc.freeze()
    try:
        yield
    finally:
        if not was_frozen:
            gc.unfreeze()
        if was_enabled:
            gc.enable()


@contextlib.contextmanager
def _silenced_dead() -> Iterator[None]:
    """Say nothing about coroutines of killed processes that could not clean up: that is the point."""
    hook = sys.unraisablehook

    def without_killed(unraisable: Any) -> None:
        if not isinstance(unraisable.exc_value, (ProcessGoneError, GeneratorExit)):
            hook(unraisable)

    sys.unraisablehook = without_killed
    try:
        yield
    finally:
        sys.unraisablehook = hook


__all__ = ["Simulation", "SimulationError", "SimulationResult", "simulate"]
