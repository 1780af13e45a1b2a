"""Serves the REST interface on the controller's loop.

The web libraries are imported when it begins to answer: a process without one does not pay for them, and they
do not delay a start.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import socket
from collections.abc import Iterator
from typing import Any

from headrace.controller.rest.server_inside import ServerInside
from headrace.controller.server import Controller
from headrace.runtime.supervisor import Supervisor


class RestServer:
    """One HTTP listener. Used on the controller's loop."""

    def __init__(
        self,
        controller: Controller,
        host: str,
        port: int,
        inside: ServerInside | None = None,
    ) -> None:
        self._controller = controller
        self._inside = inside
        self._host = host
        self._port = port
        self._supervisor = Supervisor("rest")
        self._server: Any = None
        self._listener: socket.socket | None = None
        self._serving: asyncio.Task[None] | None = None
        self._stopping = False

    async def start(self) -> int:
        """Bind and return the bound port. Requests wait until :meth:`serve` is called.

        Raises:
            OSError: the address is taken.
        """
        family = socket.AF_INET6 if ":" in self._host else socket.AF_INET
        listener = socket.create_server((self._host, self._port), family=family)
        listener.setblocking(False)
        self._listener = listener
        return int(listener.getsockname()[1])

    def serve(self) -> None:
        """Answer requests as soon as the web libraries are loaded. Idempotent; nothing after a stop."""
        listener, self._listener = self._listener, None
        if listener is not None:
            self._serving = self._supervisor.spawn("listener", self._serve(listener))

    async def _serve(self, listener: socket.socket) -> None:
        # Loading them takes a tenth of a second: in a thread, so that appends do not wait for it. Requests
        # that come meanwhile wait in the listener's backlog.
        loop = asyncio.get_running_loop()
        uvicorn = await loop.run_in_executor(None, importlib.import_module, "uvicorn")
        routes = await loop.run_in_executor(None, importlib.import_module, "headrace.controller.rest.routes")
        config = uvicorn.Config(
            routes.RestRoutes(self._controller, self._inside).application(),
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=1,
        )
        self._server = uvicorn.Server(config)
        # Signals belong to the process that embeds this listener.
        self._server.capture_signals = _no_signals
        if self._stopping:
            listener.close()
        else:
            await self._server.serve(sockets=[listener])

    async def stop(self) -> None:
        """Take no more requests, give active ones a second, stop. Idempotent."""
        if self._listener is not None:
            listener, self._listener = self._listener, None
            listener.close()
        if self._serving is not None:
            serving, self._serving = self._serving, None
            self._stopping = True
            if self._server is not None:
                self._server.should_exit = True
            await asyncio.wait([serving], timeout=5)
        await self._supervisor.stop()


@contextlib.contextmanager
def _no_signals() -> Iterator[None]:
    yield
