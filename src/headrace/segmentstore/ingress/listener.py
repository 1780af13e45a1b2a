"""Accepts connections of the wire protocol, knows all of them, and stops them in order."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from typing import Any, Final

from headrace.runtime.supervisor import Supervisor
from headrace.segmentstore.ingress.admission import Admission
from headrace.segmentstore.ingress.authorisation import Authorise, allow_all
from headrace.segmentstore.ingress.config import IngressConfig
from headrace.segmentstore.ingress.connection import Connection
from headrace.segmentstore.ingress.contract import StoreFacade
from headrace.segmentstore.ingress.receive_memory import ReceiveMemory
from headrace.segmentstore.ingress.shared_bound import SharedBound
from headrace.segmentstore.ingress.statistics import IngressStatistics
from headrace.segmentstore.ingress.unsent_bytes import UnsentBytes
from headrace.wire.server_session import WRITERS_MAX

_logger = logging.getLogger(__name__)

_BACKLOG: Final = 512

_BUFFER_BYTES_MIN: Final = 64

_PROBES: Final = (("TCP_KEEPIDLE", 60), ("TCP_KEEPINTVL", 15), ("TCP_KEEPCNT", 4))
"""A peer that vanished without a word is noticed after two minutes; its waiting reads end with it."""


class Listener:
    """The front door of one segment store. Runs on the store's loop."""

    def __init__(
        self, store: StoreFacade, config: IngressConfig | None = None, authorise: Authorise = allow_all
    ) -> None:
        self.store = store
        self.config = config or IngressConfig()
        self.authorise = authorise
        self.admission = Admission(self.config.request_bytes_max)
        self.reply_memory = Admission(self.config.table_reply_bytes_max)
        self.receive_memory = ReceiveMemory(self.config.receive_bytes_max)
        self.unsent = UnsentBytes(self.config.unsent_bytes_max)
        self.waiting_reads = SharedBound(
            each_max=self.config.waiting_reads_max, total_max=self.config.waiting_reads_total_max
        )
        self.waiting_refusals = SharedBound(
            each_max=self.config.waiting_refusals_max, total_max=self.config.waiting_refusals_total_max
        )
        self.writers = SharedBound(each_max=WRITERS_MAX, total_max=self.config.writers_total_max)
        self.supervisor = Supervisor("ingress")
        self.totals = IngressStatistics()
        self._connections: dict[Connection, None] = {}
        self._server: asyncio.Server | None = None
        self._stopping = False
        self._empty = asyncio.Event()
        self._empty.set()
        self._cleanups: set[asyncio.Task[None]] = set()

    async def start(self, host: str, port: int, tls: ssl.SSLContext | None = None) -> int:
        """Listen; return the port, which is chosen by the system if ``port`` is 0. Raises OSError."""
        loop = asyncio.get_running_loop()
        try:
            self._server = await loop.create_server(
                lambda: Connection(self), host, port, backlog=_BACKLOG, ssl=tls, reuse_address=True
            )
        except socket.gaierror as error:  # it does not say of which name
            raise OSError(f"cannot listen on {host}: {error}") from error
        name: tuple[Any, ...] = self._server.sockets[0].getsockname()
        return int(name[1])

    def receive_buffer_bytes(self) -> int:
        config = self.config
        full = config.receive_buffer_bytes
        few = len(self._connections) * full < config.receive_bytes_max
        return full if few else max(_BUFFER_BYTES_MIN, full // 4)

    def on_opened(self, connection: Connection, transport: asyncio.BaseTransport) -> bool:
        if self._stopping:
            return False  # accepted before we stopped listening: nobody would ever tell it to close
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

    def on_lost(self, connection: Connection) -> None:
        self._connections.pop(connection, None)
        if not self._connections:
            self._empty.set()
        if connection.transients.close():
            cleanup = self.supervisor.spawn("transients", connection.transients.delete_all())
            self._cleanups.add(cleanup)
            cleanup.add_done_callback(self._cleanups.discard)

    async def stop(self) -> None:
        """Accept nobody, close every connection after the replies it is owed. Idempotent."""
        self._stopping = True
        server, self._server = self._server, None
        if server is not None:
            server.close()
        for connection in list(self._connections):
            connection.close_after_replies("the server stops")
        await self._empty.wait()
        if self._cleanups:
            await asyncio.wait(self._cleanups, timeout=self.config.drain_s)
        await self.supervisor.stop()

    def statistics(self) -> IngressStatistics:
        self.totals.receive_bytes_lent = self.receive_memory.statistics().bytes_lent
        replies = self.reply_memory.statistics()
        self.totals.table_reply_bytes = replies.bytes_running
        self.totals.table_reply_waits = replies.waits
        self.totals.unsent_bytes = self.unsent.total
        self.totals.waiting_reads = self.waiting_reads.total
        self.totals.waiting_refusals = self.waiting_refusals.total
        self.totals.writers = self.writers.total
        return self.totals

    @property
    def connections(self) -> list[dict[str, Any]]:
        """What every connection is doing now."""
        return [connection.statistics() for connection in self._connections]


def _set_up(sock: socket.socket) -> None:
    """No delay for small replies; find out about dead peers."""
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _PROBES:
        if hasattr(socket, name):  # not on every system
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
