"""Serves an application by HTTP, on the loop of the process that it tells about.

The application is made, and the web libraries are imported, at the first connection: a process whose port
nobody uses, as most that tests start, does not pay for them, and they do not delay a start.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import importlib
import socket
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from typing import Any, Final

from headrace.model.endpoint import hosts_to_bind
from headrace.runtime.supervisor import Supervisor
from headrace.security.tls_transport import ContextSource, TlsAcceptor

Application = Callable[..., Awaitable[None]]
"""Of ASGI: its types are those of a library that is loaded late."""

_NOT_HERE: Final = frozenset({errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL})
"""An address of a host that this machine does not have: localhost is often ::1 too, also without IPv6."""


class WebServer:
    """One HTTP listener. Used on one loop, which is that of its application."""

    def __init__(
        self,
        make_application: Callable[[], Application],
        host: str,
        port: int,
        tls: ContextSource | None = None,
    ) -> None:
        """Make a listener that does nothing yet. With ``tls`` every connection is encrypted.

        ``make_application`` is called at most once, in a thread, and imports there what it needs.
        """
        self._make_application = make_application
        self._tls = None if tls is None else TlsAcceptor(tls)
        self._host = host
        self._port = port
        self._supervisor = Supervisor("web")
        self._server: Any = None
        self._listeners: list[socket.socket] = []
        self._serving: asyncio.Task[None] | None = None
        self._wanted = asyncio.Event()
        self._stopping = False

    async def start(self) -> int:
        """Bind every address of the host, all with one port; return it. Requests wait until :meth:`serve`.

        Raises:
            OSError: the address is taken, or is none of this machine.
        """
        loop = asyncio.get_running_loop()
        port, missing = self._port, None
        found = await loop.getaddrinfo(
            hosts_to_bind(self._host), port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        try:
            # A host may have an address twice, under several names.
            for family, address in dict.fromkeys((each[0], each[4]) for each in found):
                try:
                    listener = socket.create_server((address[0], port, *address[2:]), family=family)
                except OSError as error:
                    if error.errno not in _NOT_HERE:
                        raise
                    missing = error
                    continue
                self._listeners.append(listener)
                listener.setblocking(False)
                port = int(listener.getsockname()[1])
            if missing is not None and not self._listeners:
                raise missing
        except OSError:
            self._close_listeners()
            raise
        return port

    def _close_listeners(self) -> None:
        listeners, self._listeners = self._listeners, []
        for listener in listeners:
            listener.close()

    def serve(self) -> None:
        """Answer requests; the first one waits for the web libraries. Idempotent; nothing after a stop."""
        listeners, self._listeners = self._listeners, []
        if listeners:
            self._serving = self._supervisor.spawn("listener", self._serve(listeners))

    async def _serve(self, listeners: list[socket.socket]) -> None:
        if not await self._somebody_comes(listeners):
            for listener in listeners:
                listener.close()
            return
        # Loading them takes a tenth of a second: in a thread, so that appends do not wait for it. Requests
        # that come meanwhile wait in the listener's backlog.
        loop = asyncio.get_running_loop()
        uvicorn = await loop.run_in_executor(None, importlib.import_module, "uvicorn")
        application = await loop.run_in_executor(None, self._make_application)
        http = await loop.run_in_executor(None, importlib.import_module, "uvicorn.protocols.http.auto")
        config = uvicorn.Config(
            application,
            http=self._encrypted(http.AutoHTTPProtocol),
            lifespan="off",
            ws="none",
            log_config=None,
            log_level="error",  # of what clients send it warns without naming them, as often as they send it
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=1,
        )
        self._server = uvicorn.Server(config)
        # Signals belong to the process that embeds this listener.
        self._server.capture_signals = _no_signals
        if self._stopping:
            for listener in listeners:
                listener.close()
        else:
            await self._server.serve(sockets=listeners)

    async def _somebody_comes(self, listeners: list[socket.socket]) -> bool:
        """Wait for a connection, or for the stop; return False for that."""
        loop = asyncio.get_running_loop()
        for listener in listeners:
            loop.add_reader(listener, self._wanted.set)
        try:
            await self._wanted.wait()
        finally:
            for listener in listeners:
                loop.remove_reader(listener)
        return not self._stopping

    def _encrypted(self, make: Callable[..., asyncio.BaseProtocol]) -> Callable[..., asyncio.BaseProtocol]:
        """Return what makes the protocol of a connection: ``make``, after a handshake if there is TLS."""
        tls = self._tls
        return make if tls is None else lambda **arguments: tls.accept(partial(make, **arguments))

    async def stop(self) -> None:
        """Take no more requests, give active ones a second, stop. Idempotent."""
        self._close_listeners()
        if self._tls is not None:
            self._tls.close()
        if self._serving is not None:
            serving, self._serving = self._serving, None
            self._stopping = True
            self._wanted.set()
            if self._server is not None:
                self._server.should_exit = True
            await asyncio.wait([serving], timeout=5)
        await self._supervisor.stop()


@contextlib.contextmanager
def _no_signals() -> Iterator[None]:
    yield
