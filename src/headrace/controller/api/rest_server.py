"""Serves the REST interface on the controller's loop.

The web libraries are imported when a server is started: a process without one does not pay for them.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Iterator
from typing import Any

from headrace.controller.server import Controller
from headrace.runtime.supervisor import Supervisor


class RestServer:
    """One HTTP listener. Used on the controller's loop."""

    def __init__(self, controller: Controller, host: str, port: int) -> None:
        self._controller = controller
        self._host = host
        self._port = port
        self._supervisor = Supervisor("rest")
        self._server: Any = None
        self._serving: asyncio.Task[None] | None = None

    async def start(self) -> int:
        """Bind, begin to serve and return the bound port. Raises OSError if the address is taken."""
        import uvicorn

        from headrace.controller.api.rest_routes import RestRoutes

        family = socket.AF_INET6 if ":" in self._host else socket.AF_INET
        listener = socket.create_server((self._host, self._port), family=family)
        listener.setblocking(False)
        config = uvicorn.Config(
            RestRoutes(self._controller).application(),
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=1,
        )
        self._server = uvicorn.Server(config)
        # Signals belong to the process that embeds this listener.
        self._server.capture_signals = _no_signals
        self._serving = self._supervisor.spawn("listener", self._server.serve(sockets=[listener]))
        return int(listener.getsockname()[1])

    async def stop(self) -> None:
        """Take no more requests, give those under way a second, stop. Idempotent."""
        if self._serving is not None:
            serving, self._serving = self._serving, None
            self._server.should_exit = True
            await asyncio.wait([serving], timeout=5)
        await self._supervisor.stop()


@contextlib.contextmanager
def _no_signals() -> Iterator[None]:
    yield
