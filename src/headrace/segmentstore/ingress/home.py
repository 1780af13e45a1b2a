"""What a connection shares with all others: the store, the bounds, the counters."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Protocol

from headrace.runtime.supervisor import Supervisor
from headrace.segmentstore.ingress.admission import Admission
from headrace.segmentstore.ingress.authorisation import Authorise
from headrace.segmentstore.ingress.config import IngressConfig
from headrace.segmentstore.ingress.contract import StoreFacade
from headrace.segmentstore.ingress.receive_memory import ReceiveMemory
from headrace.segmentstore.ingress.shared_bound import SharedBound
from headrace.segmentstore.ingress.statistics import IngressStatistics
from headrace.segmentstore.ingress.unsent_bytes import UnsentBytes

if TYPE_CHECKING:
    from headrace.segmentstore.ingress.connection import Connection


class ConnectionHome(Protocol):
    """What a connection needs of the listener that accepted it."""

    store: StoreFacade
    config: IngressConfig
    authorise: Authorise
    admission: Admission
    reply_memory: Admission
    receive_memory: ReceiveMemory
    unsent: UnsentBytes
    waiting_reads: SharedBound
    waiting_refusals: SharedBound
    writers: SharedBound
    supervisor: Supervisor
    totals: IngressStatistics

    def receive_buffer_bytes(self) -> int:
        """Return the size of a new connection's buffer under load."""

    def on_opened(self, connection: Connection, transport: asyncio.BaseTransport) -> bool:
        """Say whether there is room for it."""

    def on_lost(self, connection: Connection) -> None:
        """It is gone, and with it what it held."""
