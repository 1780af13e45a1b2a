"""Keeps connections to segment stores and gives flows the least used one.

Appends and reads use different connections to the same host: an acknowledgement of a hundred bytes should
not wait behind megabytes of history.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from enum import Enum
from itertools import count
from typing import Any

from headrace.client.connections.connection import Connection
from headrace.client.connections.reply_receiver import ReadBlock
from headrace.client.connections.silence import IsGone
from headrace.client.connections.tls_failures import (
    CERTIFICATE_HINT,
    failure_of_socket,
    server_is_plain,
    server_speaks_tls,
)
from headrace.client.connections.tls_probe import greets_plainly, speaks_tls
from headrace.client.forks import OfOneProcess
from headrace.client.segment_address import SegmentAddress
from headrace.errors import ClosedError, ConnectionLostError, TlsError, UnreachableError, UnsupportedError
from headrace.model.endpoint import Endpoint
from headrace.runtime import logs
from headrace.wire.catalogue import BY_COMMAND, VERSION, VERSION_OLDEST
from headrace.wire.commands.kinds import Command

_log = logs.logger(__name__)


class Use(Enum):
    """What a connection is for."""

    APPEND = "append"
    READ = "read"


class _Call:
    """A flow of one request and one reply."""

    __slots__ = ("address", "future")

    def __init__(self, future: asyncio.Future[Any], address: SegmentAddress | None) -> None:
        self.future = future
        self.address = address

    def on_reply(self, reply: Any) -> None:
        if not self.future.done():
            self.future.set_result(reply)

    def on_connection_lost(self, error: Exception) -> None:
        if not self.future.done():
            self.future.set_exception(error)


class ConnectionPool(OfOneProcess):
    """At most ``connections_max`` connections per host and use; each is shared by many flows. One loop."""

    _called = "the connection"

    def __init__(
        self,
        *,
        connections_max: int = 2,
        connect_timeout_s: float = 5.0,
        tls: ssl.SSLContext | None = None,
        version: int = VERSION,
        is_gone: IsGone | None = None,
    ) -> None:
        """Connect to nothing yet.

        Args:
            connections_max: per host and use.
            connect_timeout_s: how long a connection may take.
            tls: None: nothing is encrypted.
            version: the highest that servers are told, INTERNAL_VERSION by processes of ours.
            is_gone: asked about a server that says nothing; its connections are dropped if it is.
        """
        assert connections_max >= 1
        self._version = version
        self._is_gone = is_gone
        self._connections_max = connections_max
        self._connect_timeout_s = connect_timeout_s
        self._tls = tls
        self._open: dict[tuple[Endpoint, Use], list[Connection]] = {}
        self._connecting: dict[tuple[Endpoint, Use], asyncio.Future[Connection]] = {}
        self._greeted: set[Endpoint] = set()
        """Servers that have spoken the protocol to this client."""
        self._request_ids = count(1)
        self._closed = False

    def new_request_id(self) -> int:
        """Return a request id no other flow of this client uses."""
        return next(self._request_ids)

    async def lease(self, endpoint: Endpoint, use: Use) -> Connection:
        """Return an open connection; the caller registers its flow before it awaits anything.

        Raises:
            UnreachableError: the host cannot be reached (now); nothing was sent.
            TlsError: the host and this client do not agree about encryption; nothing was sent.
            ClosedError: the pool is closed.
        """
        while True:
            if self._closed:
                raise ClosedError("the client is closed")
            key = (endpoint, use)
            opened = self._open.setdefault(key, [])
            idle = min(opened, key=lambda each: each.flow_count, default=None)
            if idle is not None and (idle.flow_count == 0 or len(opened) >= self._connections_max):
                return idle
            pending = self._connecting.get(key)
            if pending is None:
                return await self._connect(key)
            # Someone is connecting already: wait, then look again which one is the least used.
            await asyncio.wait([pending])
            if not pending.cancelled() and (error := pending.exception()) is not None:
                raise error

    async def _connect(self, key: tuple[Endpoint, Use]) -> Connection:
        endpoint = key[0]
        pending: asyncio.Future[Connection] = asyncio.get_running_loop().create_future()
        self._connecting[key] = pending

        def forget(connection: Connection) -> None:
            if connection in self._open.get(key, ()):
                self._open[key].remove(connection)
                _log.info("a connection is closed", segment_store=endpoint, use=key[1].value)

        try:
            connection = await self._open_connection(endpoint, forget)
        except (TlsError, UnreachableError) as error:
            pending.set_exception(error)
            pending.exception()  # mark it as retrieved: perhaps no caller waits
            raise
        except BaseException:
            pending.cancel()
            raise
        finally:
            del self._connecting[key]
        if self._closed:
            connection.abort()
            pending.cancel()
            raise ClosedError("the client is closed")
        _log.info("connected", segment_store=endpoint, use=key[1].value)
        self._greeted.add(endpoint)
        self._open[key].append(connection)
        pending.set_result(connection)
        return connection

    async def _open_connection(
        self, endpoint: Endpoint, on_closed: Callable[[Connection], None]
    ) -> Connection:
        """Raises TlsError, UnreachableError."""
        connection: Connection | None = None

        def make() -> Connection:
            nonlocal connection
            connection = Connection(endpoint, on_closed, self._version, self._is_gone)
            return connection

        try:
            async with asyncio.timeout(self._connect_timeout_s):
                # Given up right behind connection_made, uvloop tells the connection nothing of its end.
                _, made = await asyncio.get_running_loop().create_connection(make, *endpoint, ssl=self._tls)
                if endpoint not in self._greeted:  # a server that wants TLS, or a certificate, hangs up
                    await made.wait_server_version()
            if made.closed:  # by the first reply, before the connection was returned
                raise ConnectionResetError("the server does not speak the protocol")
        except BaseException as cause:
            if connection is not None:
                connection.abort()
            # UnicodeError: that is no name of a host.
            if isinstance(cause, (OSError, TimeoutError, UnicodeError, ConnectionLostError)):
                raise await self._explain(endpoint, cause) from cause
            raise
        return made

    async def _explain(self, endpoint: Endpoint, cause: Exception) -> TlsError | UnreachableError:
        """Return what it means that no connection came about."""
        greeted = not isinstance(cause, ConnectionLostError)
        server, timeout_s = str(endpoint), self._connect_timeout_s
        failure = failure_of_socket(cause if greeted else cause.__cause__, server)
        if failure is not None:
            return failure
        reason = str(cause) or "timed out"
        if self._tls is None:
            if not greeted and await speaks_tls(endpoint, timeout_s):
                return server_speaks_tls(server)
        elif not greeted:
            reason = f"{reason}; {CERTIFICATE_HINT}"
        elif isinstance(cause, (ConnectionResetError, ssl.SSLError)) and await greets_plainly(
            endpoint, timeout_s
        ):
            return server_is_plain(server)
        return UnreachableError(f"{endpoint} cannot be reached: {reason}")

    @property
    def closed(self) -> bool:
        return self._closed

    async def call(
        self,
        endpoint: Endpoint,
        request: Command,
        *,
        timeout_s: float | None = 30.0,
        address: SegmentAddress | None = None,
    ) -> Command | ReadBlock:
        """Send one request (its id is filled in here) and return its reply.

        Args:
            endpoint: of the server.
            request: about a segment.
            timeout_s: None waits as long as the connection lives, as a read at the tail does.
            address: of that segment, by which its owner is looked for if the server says nothing.

        Raises:
            UnreachableError: the host cannot be reached; nothing was sent.
            ConnectionLostError: no reply came; the request may have happened.
            UnsupportedError: the server is too old for it; nothing was sent.
        """
        connection = await self.lease(endpoint, Use.READ)
        since = BY_COMMAND[type(request)].since
        if since > VERSION_OLDEST and await connection.wait_server_version() < since:
            raise UnsupportedError(f"{type(request).__name__} needs version {since} of the protocol")
        request_id = self.new_request_id()
        request.request_id = request_id  # type: ignore[attr-defined] # every request about a segment has one
        future: asyncio.Future[Command | ReadBlock] = asyncio.get_running_loop().create_future()
        connection.register(request_id, _Call(future, address))
        _log.debug("a segment store is called", command=type(request).__name__, segment_store=endpoint)
        try:
            connection.send(request)
            async with asyncio.timeout(timeout_s):
                return await future
        except TimeoutError:
            name = type(request).__name__
            raise ConnectionLostError(f"{name} was not answered within {timeout_s} s") from None
        finally:
            connection.unregister(request_id)

    def close(self) -> None:
        """Drop every connection; flows are notified. Idempotent."""
        self._closed = True
        for connections in list(self._open.values()):
            for connection in list(connections):
                connection.abort()
        self._open.clear()

    def statistics(self) -> list[dict[str, Any]]:
        return [
            {"use": use.value, **connection.statistics()}
            for (_, use), connections in self._open.items()
            for connection in connections
        ]
