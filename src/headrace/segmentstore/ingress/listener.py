"""Accepts the connections of the wire protocol, lists them, and closes them in order."""

from __future__ import annotations

import asyncio
import logging
import socket
from typing import Any, Final

from headrace.model.endpoint import hosts_to_bind
from headrace.security.tls_transport import ContextSource, TlsAcceptor
from headrace.segmentstore.ingress.authorisation import Authorise, allow_all
from headrace.segmentstore.ingress.budget import Lane
from headrace.segmentstore.ingress.config import IngressConfig
from headrace.segmentstore.ingress.connection import Connection
from headrace.segmentstore.ingress.contract import StoreFacade
from headrace.segmentstore.ingress.home import ConnectionHome, ServedConnection
from headrace.segmentstore.ingress.statistics import IngressStatistics

_logger = logging.getLogger(__name__)

_BACKLOG: Final = 512

_PORT_ATTEMPTS: Final = 8
"""A port that is free on one address may be taken on another one, or at that moment."""

_BUFFER_BYTES_MIN: Final = 64

_PROBES: Final = (("TCP_KEEPIDLE", 60), ("TCP_KEEPINTVL", 15), ("TCP_KEEPCNT", 4))
"""A peer that vanished is detected after two minutes; its waiting reads end then."""


class Listener(ConnectionHome):
    """The listener of one segment store. Runs on the store's loop."""

    def __init__(
        self, store: StoreFacade, config: IngressConfig | None = None, authorise: Authorise = allow_all
    ) -> None:
        super().__init__(store, config or IngressConfig(), authorise)
        self._server: asyncio.Server | None = None
        self._tls: TlsAcceptor | None = None
        self._stopping = False
        self._empty = asyncio.Event()
        self._empty.set()
        self._cleanups: set[asyncio.Task[None]] = set()
        self._lost_bytes_sent = 0
        """By connections that are lost."""

    async def start(self, host: str, port: int, tls: ContextSource | None = None) -> int:
        """Listen on all addresses of ``host``, with one port (0: any free one); return it. Raises OSError.

        With ``tls`` every connection is encrypted.
        """
        self._tls = None if tls is None else TlsAcceptor(tls, self._admits_handshake)
        attempts_left = _PORT_ATTEMPTS
        while True:
            server = self._server = await self._listen(host, port)
            first, *others = (int(each.getsockname()[1]) for each in server.sockets)
            if all(other == first for other in others):
                return first
            server.close()  # the system chose one for each address
            attempts_left -= 1
            try:
                self._server = await self._listen(host, first)
                return first
            except OSError:  # that one is taken on another address
                if not attempts_left:
                    raise

    async def _listen(self, host: str, port: int) -> asyncio.Server:
        loop = asyncio.get_running_loop()
        try:
            return await loop.create_server(
                self._make_protocol,
                hosts_to_bind(host),
                port,
                backlog=_BACKLOG,
                reuse_address=True,
            )
        except socket.gaierror as error:  # it does not name the host
            raise OSError(f"cannot listen on {host}: {error}") from error

    def _make_protocol(self) -> asyncio.BaseProtocol:
        return Connection(self) if self._tls is None else self._tls.accept(lambda: Connection(self))

    def _admits_handshake(self) -> bool:
        """Handshakes count as connections, lest sockets that never finish one have all descriptors."""
        assert self._tls is not None
        if len(self._connections) + len(self._tls.handshakes) < self.config.connections_max:
            return not self._stopping
        self.totals.connections_refused += 1
        return False

    def receive_buffer_bytes(self) -> int:
        config = self.config
        full = config.receive_buffer_bytes
        few = len(self._connections) * full < config.connection_bytes_max // 2
        return full if few else max(_BUFFER_BYTES_MIN, full // 4)

    def on_opened(self, connection: ServedConnection, transport: asyncio.BaseTransport) -> bool:
        if self._stopping:
            return False  # accepted before listening stopped: ``stop`` has not closed it
        if len(self._connections) >= self.config.connections_max:
            self.totals.connections_refused += 1
            _logger.warning("connection %s is refused: there are %d", connection.peer, len(self._connections))
            return False
        self.totals.connections_accepted += 1
        self._connections[connection] = None
        self._empty.clear()
        sock = transport.get_extra_info("socket")
        if sock is not None:  # a simulated network has none
            _set_up(sock)
        return True

    def on_lost(self, connection: ServedConnection) -> None:
        if connection in self._connections:
            del self._connections[connection]
            self._lost_bytes_sent += connection.bytes_sent
        if not self._connections:
            self._empty.set()
        if connection.transients.close():
            cleanup = self.supervisor.spawn("transients", connection.transients.delete_all())
            self._cleanups.add(cleanup)
            cleanup.add_done_callback(self._cleanups.discard)

    async def stop(self) -> None:
        """Accept no connection, close each after its owed replies. Idempotent."""
        self._stopping = True
        server, self._server = self._server, None
        if server is not None:
            server.close()
        if self._tls is not None:
            self._tls.close()
        for connection in list(self._connections):
            connection.close_after_replies("the server stops")
        await self._empty.wait()
        if self._cleanups:
            await asyncio.wait(self._cleanups, timeout=self.config.drain_s)
        await self.supervisor.stop()

    def statistics(self) -> IngressStatistics:
        totals, budget = self.totals, self.budget
        totals.connections = len(self._connections)
        totals.bytes_sent = self._lost_bytes_sent + sum(found.bytes_sent for found in self._connections)
        totals.receive_bytes_lent = budget.used(Lane.FRAMES)
        totals.request_bytes = budget.used(Lane.REQUESTS, Lane.SMALL_REQUESTS)
        totals.table_reply_bytes = budget.used(Lane.REPLIES)
        totals.unsent_bytes = budget.unsent_bytes
        totals.memory_waits = budget.waits
        totals.waiting_reads = self.waiting_reads.total
        totals.waiting_refusals = self.waiting_refusals.total
        totals.writers = self.writers.total
        if self._tls is not None:
            totals.handshakes = len(self._tls.handshakes)
            totals.handshakes_failed = self._tls.failures
        return totals

    @property
    def connections(self) -> list[dict[str, Any]]:
        """The state of every connection."""
        return [connection.statistics() for connection in self._connections]


def _set_up(sock: socket.socket) -> None:
    """Send small replies without delay; detect dead peers."""
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _PROBES:
        if hasattr(socket, name):  # not on every system
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
