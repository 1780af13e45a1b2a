"""An event loop on virtual time whose every choice follows from a seed.

Fault model, that is, what this loop may do to a program and a real one does too:

* Tasks that are ready at the same moment run in any order, and interleave with callbacks in any order.
  Callbacks scheduled by ``call_soon`` keep their order among themselves, as in asyncio.
* A process may be killed between any two callbacks; nothing of it is executed any more.
* A process may be paused between any two callbacks; what became ready meanwhile is executed afterwards.
* Time may be read in whole milliseconds, and timers strike a little early: see ``loop_time``.

What it does for the test: an hour of waiting costs nothing, since time jumps to the next timer; a program
that waits without an event to come is a ``DeadlockError``, one that spins is a ``LivelockError``; threads,
sockets and processes are refused; an unhandled exception is remembered in ``failures``.

Tasks and futures hash by a counter, not by address: sets of them (``TaskGroup`` and ``asyncio.wait`` use
such) then iterate alike in every run.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import heapq
import sys
import threading
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterator
from contextvars import Context, copy_context
from typing import Any, Final, NoReturn, TypeVar, TypeVarTuple, Unpack

from headrace.runtime.entropy import SeededEntropy
from headrace.testing.failures import (
    DeadlockError,
    ForbiddenError,
    LivelockError,
    ProcessGoneError,
    TimeLimitError,
)
from headrace.testing.loop_time import TIME_START_S, ExactTime, LoopTime
from headrace.testing.process import CURRENT_PROCESS, SimulatedProcess
from headrace.testing.tasks import NumberedLoop, SimulatedFuture, SimulatedHandle, SimulatedTask
from headrace.testing.trace import LINES_RETAINED_DEFAULT, Trace

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

#: Callbacks that may be executed without progress of time.
SPINS_MAX: Final = 200_000

#: Callbacks between two garbage collections.
_COLLECT_AFTER: Final = 200_000

_TASKS_SHOWN_MAX: Final = 40


class SimulatedLoop(NumberedLoop):
    """The loop; see the module. What it does not define raises NotImplementedError: it would be the real
    world.
    """

    def __init__(
        self,
        entropy: SeededEntropy,
        *,
        shuffle: bool = True,
        loop_time: LoopTime | None = None,
        iteration_s: float = 0.0,
        limit_s: float = 3_600.0,
        callbacks_max: int | None = None,
        trace_callbacks: bool = False,
        lines_retained: int | None = None,
    ) -> None:
        """Make a loop.

        Args:
            entropy: where choices come from.
            shuffle: whether tasks that are ready run in any order, or in asyncio's.
            loop_time: how the program reads time.
            iteration_s: what one iteration takes, whatever is executed in it. Above 0 a program that polls
                without waiting makes progress, as on a real loop; else it is a livelock.
            limit_s: how much virtual time the program has.
            callbacks_max: how many callbacks it has; None: as many as fit into the time.
            trace_callbacks: whether each of them leaves a line in the trace.
            lines_retained: of the trace.
        """
        self.network: Any = None
        """Set by the simulation that owns the loop; anything with ``connect`` and ``listen``."""
        self.trace = Trace(self.machine_time, lines_retained=lines_retained or LINES_RETAINED_DEFAULT)
        self.failures: list[tuple[str, BaseException | None]] = []
        """Unhandled exceptions: the message, then the error."""
        self.callbacks_run = 0
        self._tasks: dict[
            SimulatedTask, None
        ] = {}  # referenced here, so that a killed one does not end by collection
        self._entropy = entropy
        self._shuffle = shuffle
        self._trace_callbacks = trace_callbacks
        self._time = ExactTime() if loop_time is None else loop_time
        self._now = TIME_START_S
        self._iteration_s = iteration_s
        self._limit_at = TIME_START_S + limit_s
        self._callbacks_max = callbacks_max
        self._ready: deque[SimulatedHandle] = deque()
        self._parked: list[SimulatedHandle] = []
        """Callbacks of paused processes that became ready."""
        self._timers: list[tuple[float, int, asyncio.TimerHandle, SimulatedHandle]] = []
        self._timers_cancelled = 0
        self._spins = 0
        self._uncollected = 0
        self._serial = 0
        self._thread = threading.get_ident()
        self._running = False
        self._stopping = False
        self._closed = False
        self._handle_exception: Callable[[SimulatedLoop, dict[str, Any]], object] | None = None
        self._generators: dict[AsyncGenerator[Any, Any], SimulatedProcess | None] = {}

    # ---- time and identity

    def time(self) -> float:
        return self._time.read(self._now)

    def machine_time(self) -> float:
        """Return the time of the world around the program: seconds, exact."""
        return self._now

    def elapsed_s(self) -> float:
        """Return how many virtual seconds have passed."""
        return self._now - TIME_START_S

    def next_serial(self) -> int:
        """Return the next of the numbers that stand for identity."""
        self._serial += 1
        return self._serial

    def allow(self, seconds: float) -> None:
        """Let the program go on for that much more virtual time, counted from now."""
        self._limit_at = self._now + seconds

    def unpark(self) -> None:
        """Execute what has become ready in processes that are not paused any more."""
        parked, self._parked = self._parked, []
        self._ready.extend(parked)

    # ---- scheduling

    def call_soon(
        self, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        assert not self._closed
        handle = SimulatedHandle(callback, args, self, context)
        self._ready.append(handle)
        return handle

    def call_soon_threadsafe(
        self, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        if threading.get_ident() != self._thread:
            raise ForbiddenError("a thread called into the simulation")
        return self.call_soon(callback, *args, context=context)

    def call_later(
        self,
        delay: float,
        callback: Callable[[Unpack[Ts]], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        return self._start_timer(self._time.after(delay, self._now), callback, args, context)

    def call_at(
        self,
        when: float,
        callback: Callable[[Unpack[Ts]], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        return self._start_timer(self._time.at(when, self._now), callback, args, context)

    def call_at_machine_time(
        self,
        when: float,
        callback: Callable[[Unpack[Ts]], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        """Do what the world around the program does, at exactly that ``machine_time()``."""
        return self._start_timer(when, callback, args, context)

    def _start_timer(
        self, when: float, callback: Callable[..., object], args: tuple[Any, ...], context: Context | None
    ) -> asyncio.TimerHandle:
        assert not self._closed
        context = copy_context() if context is None else context
        timer = asyncio.TimerHandle(when, callback, args, self, context)
        handle = SimulatedHandle(callback, args, self, context, timer)
        heapq.heappush(self._timers, (when, self.next_serial(), timer, handle))
        return timer

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """Called by ``TimerHandle.cancel``: sweep out the cancelled ones when they are the larger part."""
        del handle
        self._timers_cancelled += 1
        if self._timers_cancelled > max(256, len(self._timers) // 2):
            self._timers = [entry for entry in self._timers if not entry[2].cancelled()]
            heapq.heapify(self._timers)
            self._timers_cancelled = 0

    def create_future(self) -> asyncio.Future[Any]:
        return SimulatedFuture(loop=self)

    def create_task(
        self, coro: Any, *, name: str | None = None, context: Context | None = None, **options: Any
    ) -> asyncio.Task[Any]:
        assert not self._closed
        assert not options.get("eager_start")  # steps of tasks are what is shuffled
        task = SimulatedTask(coro, loop=self, name=name, context=context)
        self._tasks[task] = None
        return task

    # ---- the iteration

    def _run_once(self) -> None:
        """Run everything that is ready now; if nothing is, move time to the next timer first."""
        if not self._ready:
            self._jump()
        elif self._iteration_s:
            self._move_to(self._now + self._iteration_s)
        timers = self._timers
        while timers and timers[0][0] <= self._now:
            _, _, timer, handle = heapq.heappop(timers)
            if not timer.cancelled():
                self._ready.append(handle)
        ready = self._in_some_order(list(self._ready))
        self._ready.clear()
        for handle in ready:
            if handle.is_paused:
                self._parked.append(handle)
            elif handle.runs:
                self.callbacks_run += 1
                if self._trace_callbacks:
                    self.trace.add("loop", "run", what=handle.label)
                handle.run()
                if handle.task is not None and handle.task.done():
                    self._tasks.pop(handle.task, None)
        self._spins += len(ready)
        self._collect_garbage(len(ready))
        if self._callbacks_max is not None and self.callbacks_run > self._callbacks_max:
            raise TimeLimitError(f"still running after {self.callbacks_run} callbacks{self.describe_tasks()}")
        if self._spins > SPINS_MAX:
            raise LivelockError(f"{self._spins} callbacks ran at {self._now}{self.describe_tasks()}")

    def _collect_garbage(self, callbacks: int) -> None:
        """Run finalisers at moments that repeat; a simulation switches the collector's own moments off."""
        self._uncollected += callbacks
        if self._uncollected > _COLLECT_AFTER and not gc.isenabled():
            self._uncollected = 0
            gc.collect()

    def _jump(self) -> None:
        while self._timers and self._timers[0][2].cancelled():
            heapq.heappop(self._timers)
        if not self._timers:
            raise DeadlockError(f"nothing can happen any more{self.describe_tasks()}")
        self._move_to(self._timers[0][0])

    def _move_to(self, when: float) -> None:
        if when > self._now:
            self._now = when
            self._spins = 0
        if when > self._limit_at:
            raise TimeLimitError(f"still running at {when}{self.describe_tasks()}")

    def _in_some_order(self, ready: list[SimulatedHandle]) -> list[SimulatedHandle]:
        """Shuffle the steps of tasks; keep the order of callbacks; interleave the two."""
        if not self._shuffle or len(ready) < 2:
            return ready
        steps = [handle for handle in ready if handle.task is not None]
        callbacks = [handle for handle in ready if handle.task is None]
        draw = self._entropy.randbelow
        for last in range(len(steps) - 1, 0, -1):
            other = draw(last + 1)
            steps[last], steps[other] = steps[other], steps[last]
        steps.reverse()
        callbacks.reverse()
        merged = []
        while steps and callbacks:
            merged.append((steps if draw(len(steps) + len(callbacks)) < len(steps) else callbacks).pop())
        return merged + steps[::-1] + callbacks[::-1]

    # ---- running

    def run_forever(self) -> None:
        try:
            with self.entered():
                while not self._stopping:
                    self._run_once()
        finally:
            self._stopping = False

    @contextlib.contextmanager
    def entered(self) -> Iterator[None]:
        """Be the running loop of the code within, without executing any callback.

        Code that begins a task without a running loop gets a real loop from asyncio, which makes it, never
        runs it and references the task, and with it all that the task knows of, for the life of the process.
        """
        assert not self._closed
        assert not self._running
        hooks = sys.get_asyncgen_hooks()
        self._running = True
        try:
            sys.set_asyncgen_hooks(firstiter=self._on_generator, finalizer=self._on_generator_dropped)
            asyncio._set_running_loop(self)  # noqa: SLF001 - asyncio offers it to authors of loops
            yield
        finally:
            self._running = False
            asyncio._set_running_loop(None)  # noqa: SLF001 - as above
            sys.set_asyncgen_hooks(*hooks)

    def run_until_complete(self, future: Any) -> Any:
        task = asyncio.ensure_future(future, loop=self)
        task.add_done_callback(self._stop_for)
        try:
            self.run_forever()
        except BaseException:
            if task.done() and not task.cancelled():
                task.exception()  # what interrupted us matters more
            raise
        finally:
            task.remove_done_callback(self._stop_for)
        return task.result()

    def _stop_for(self, _: asyncio.Future[Any]) -> None:
        self.stop()

    def stop(self) -> None:
        self._stopping = True

    def is_running(self) -> bool:
        return self._running

    def is_closed(self) -> bool:
        return self._closed

    def close(self) -> None:
        assert not self._running
        self._closed = True
        self._ready.clear()
        self._parked.clear()
        self._timers.clear()

    # ---- asynchronous generators

    def _on_generator(self, generator: AsyncGenerator[Any, Any]) -> None:
        self._generators[generator] = CURRENT_PROCESS.get()

    def _on_generator_dropped(self, generator: AsyncGenerator[Any, Any]) -> None:
        process = self._generators.pop(generator, None)
        if not self._closed and (process is None or process.alive):
            self.create_task(generator.aclose())

    async def shutdown_asyncgens(self) -> None:
        generators, self._generators = self._generators, {}
        for generator, process in generators.items():
            if process is None or process.alive:
                await generator.aclose()

    async def shutdown_default_executor(self, timeout: float | None = None) -> None:
        """There is none."""

    # ---- failures

    def get_exception_handler(self) -> Any:
        return self._handle_exception

    def set_exception_handler(self, handler: Any) -> None:
        self._handle_exception = handler

    def default_exception_handler(self, context: dict[str, Any]) -> None:
        error = context.get("exception")
        task = context.get("task") or context.get("future")
        if isinstance(error, ProcessGoneError) or (isinstance(task, SimulatedTask) and not task.lives):
            return
        name = f" ({task.get_name()})" if isinstance(task, asyncio.Task) else ""
        self.failures.append((f"{context.get('message')}{name}", error))

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        if self._handle_exception is None:
            self.default_exception_handler(context)
        else:
            self._handle_exception(self, context)

    def get_debug(self) -> bool:
        return False

    def set_debug(self, enabled: bool) -> None:
        assert not enabled  # its checks measure real time

    # ---- the real world

    async def create_connection(
        self, protocol_factory: Any, host: Any = None, port: Any = None, **options: Any
    ) -> Any:
        _refuse_options(options)
        return await self._require_network().connect(protocol_factory, host, port)

    async def create_server(
        self, protocol_factory: Any, host: Any = None, port: Any = None, **options: Any
    ) -> Any:
        _refuse_options(options)
        return self._require_network().listen(protocol_factory, host, port)

    def _require_network(self) -> Any:
        if self.network is None:
            raise ForbiddenError("this simulation has no network")
        return self.network

    def run_in_executor(
        self, executor: Any, func: Callable[[Unpack[Ts]], T], *args: *Ts
    ) -> asyncio.Future[T]:
        del executor, args
        raise ForbiddenError(f"{func!r} wants a thread: take BlockingWork (runtime.blocking)")

    async def getaddrinfo(self, host: Any, port: Any, **options: Any) -> NoReturn:
        del options
        raise ForbiddenError(f"looking up {host}:{port}: connect by the name of a simulated host")

    # ---- introspection

    def living_tasks(self) -> list[SimulatedTask]:
        """Return the unfinished tasks whose processes live, oldest first."""
        return [task for task in self._tasks if task.lives and not task.done()]

    def unfinished_tasks(self) -> list[SimulatedTask]:
        """Return the unfinished tasks, of killed processes too, oldest first."""
        return [task for task in self._tasks if not task.done()]

    def describe_tasks(self) -> str:
        """Return one line for each task that lives: its name and the place where it waits."""
        tasks = self.living_tasks()
        lines = [f"\n  {task.get_name()} waits in {task.place}" for task in tasks[:_TASKS_SHOWN_MAX]]
        if len(tasks) > _TASKS_SHOWN_MAX:
            lines.append(f"\n  ... and {len(tasks) - _TASKS_SHOWN_MAX} more")
        return "".join(lines)


def _refuse_options(options: dict[str, Any]) -> None:
    for name in ("ssl", "sock", "local_addr"):
        if options.get(name):
            raise ForbiddenError(f"{name} is not simulated")
