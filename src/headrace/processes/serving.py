"""Runs the server of a process: start, ready file, signals, an orderly end, and what it exits with."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import Callable, Coroutine
from typing import Any, Protocol

from headrace.errors import EXIT_CODES, HeadraceError, family_of
from headrace.processes.process_config import ProcessConfig
from headrace.processes.ready_file import remove_ready_file, write_when_there_is_space
from headrace.processes.taken_over import OnTakenOver
from headrace.runtime.collector import tune_collector
from headrace.runtime.descriptors import raise_limit
from headrace.runtime.loops import run as run_loop
from headrace.runtime.loops import share_interpreter
from headrace.runtime.supervisor import Supervisor

_logger = logging.getLogger(__name__)


class Addresses(Protocol):
    """Where clients find a running server. As text: for the log."""

    @property
    def tls(self) -> bool:
        """Whether all of them are encrypted."""

    def as_dict(self) -> dict[str, str | bool]:
        """Return what the ready file says of them."""


class Server(Protocol):
    """What is started once and stopped once in a process, and is the process."""

    @property
    def config(self) -> ProcessConfig: ...

    async def start(self, on_taken_over: OnTakenOver) -> Addresses:
        """Start everything; whatever was started is stopped again if a later part fails.

        ``on_taken_over``: called once nothing is left to serve.
        """

    async def stop(self) -> None:
        """Stop everything that runs, in reverse order. Idempotent."""

    @property
    def is_stalled(self) -> bool:
        """Whether a thread could not be ended by :meth:`stop`: the process has to exit without it."""


def run(make: Callable[[], Server]) -> None:
    """Run a server in this process until a signal stops it; returns after a clean stop.

    Raises as the start of the server, and what it ends with once nothing is left to serve.
    """
    share_interpreter()
    raise_limit()
    run_loop(_serve_and_exit(make))


async def _serve_and_exit(make: Callable[[], Server]) -> None:
    taken_over: list[HeadraceError] = []
    if await serve(make(), taken_over):
        _logger.warning("the process ends with a stalled call; the next start recovers from the logs")
        for error in taken_over:
            _logger.error("%s", error)
        logging.shutdown()
        # The end of the loop would wait for its tasks, that of the interpreter for its threads.
        os._exit(EXIT_CODES[family_of(taken_over[0])] if taken_over else 0)
    if taken_over:
        raise taken_over[0]


async def serve(server: Server, taken_over: list[HeadraceError] | None = None) -> bool:
    """Run a server until SIGTERM or SIGINT, or until nothing is left to serve, the reason of which is added
    to ``taken_over``; answer whether it left a stalled thread behind.
    """
    loop = asyncio.get_running_loop()
    stopping = asyncio.Event()

    def end(error: HeadraceError) -> None:
        if taken_over is not None:
            taken_over.append(error)
        stopping.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    addresses = await start_until(stopping, server.start(end))
    if addresses is None:
        _logger.info("stopped before it was ready")
        return server.is_stalled
    tune_collector()
    config = server.config
    try:
        if config.ready_file is not None:
            await write_when_there_is_space(config.ready_file, addresses.as_dict(), stopping)
        with_tls = " with TLS" if addresses.tls else ""
        _logger.info("headrace is ready%s: %s; %s", with_tls, addresses, config.place())
        await stopping.wait()
        _logger.info("stopping")
    finally:
        try:
            if config.ready_file is not None:
                remove_ready_file(config.ready_file)
        finally:
            await server.stop()
    return server.is_stalled


async def start_until(stopping: asyncio.Event, start: Coroutine[Any, Any, Addresses]) -> Addresses | None:
    """Start, or give up and answer None once ``stopping`` is set: a start may wait for space for ever."""
    supervisor = Supervisor("start", lambda _name, _error: None)  # whatever it is, it is raised below
    starting = supervisor.spawn("server", start)
    signalled = supervisor.spawn("signal", stopping.wait())
    try:
        await asyncio.wait((starting, signalled), return_when=asyncio.FIRST_COMPLETED)
        return await starting if starting.done() else None
    finally:
        # Once only, and then it has its time: a second cancellation would cut off what stops those started.
        starting.cancel()
        await asyncio.wait((starting,))
        await supervisor.stop()
