"""What every call of a client shares: its connections, its control plane, and how it ends."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from headrace.client.block_exit import close_at_exit
from headrace.client.config import ClientConfig, ControllerAddress
from headrace.client.connections.pool import ConnectionPool
from headrace.client.connections.tls import tls_context
from headrace.client.control.controller import Controller
from headrace.client.control.key_value_tables import KeyValueTables
from headrace.client.control.reader_groups import ReaderGroups
from headrace.client.control.segments import Segments
from headrace.client.control.stream_times import StreamTimes
from headrace.client.control.streams import Streams
from headrace.client.control.tokens import Tokens
from headrace.client.control.transactions import Transactions
from headrace.client.forks import OfOneProcess
from headrace.client.open_writers import OpenWriters
from headrace.client.owner_calls import OwnerCalls
from headrace.client.reader.cuts import Cuts
from headrace.client.segment_calls import SegmentCalls
from headrace.client.services import ClientServices
from headrace.runtime.clock import SystemClock
from headrace.runtime.entropy import Entropy
from headrace.runtime.supervisor import Supervisor


class ClientCore(OfOneProcess):
    """One connection to the system, shared by everything that is made from it. Used on one loop."""

    def __init__(self, uri: str, config: ClientConfig, entropy: Entropy) -> None:
        address = ControllerAddress.parse(uri)
        clock = SystemClock()
        self.uri = uri
        self.config = config
        self._controller = Controller(address, config, entropy)
        self._streams = Streams(self._controller, clock)
        self._times = StreamTimes(self._controller)
        self.transactions = Transactions(self._controller)
        """Transactions by id: status, commit, abort; and batches of them for exactly-once sinks."""
        segments = Segments(self._controller)
        self._services = ClientServices(
            uri=uri,
            pool=ConnectionPool(
                connections_max=config.connections_max,
                connect_timeout_s=config.connect_timeout_s,
                tls=tls_context(config) if address.tls else None,
                is_gone=segments.is_gone,
            ),
            segments=segments,
            tokens=Tokens(self._controller, clock, enabled=config.credentials is not None),
            entropy=entropy,
            supervisor=Supervisor("client"),
            open_writers=OpenWriters(config.close_timeout_s),
        )
        self._owner_calls = OwnerCalls(self._services, config.reader.reconnect)
        self._calls = SegmentCalls(self._owner_calls)
        self._tables = KeyValueTables(self._controller)
        self._groups = ReaderGroups(self._controller)
        self._cuts = Cuts(self._services, self._calls, config.reader)
        self._closed = False

    def __repr__(self) -> str:
        return f"<headrace.aio.Client of {self.uri}, {'closed' if self._closed else 'open'}>"

    async def close(self) -> None:
        """Close every writer that is still open, then drop connections and stop. Idempotent.

        Writers make durable what they took, and changes of tables that are in flight are waited for, up to
        ``close_timeout_s`` of the configuration. Open transactions are aborted. A call that was cancelled may
        be repeated: it waits for the rest.

        Raises:
            NotDurableError: it says of which stream how much is not durable; the client is closed even then.
        """
        if self._closed:
            return
        await self._services.open_writers.close()
        # Tasks first: their calls fail, and none connects again when connections are closed.
        await self._services.supervisor.stop()
        self._services.pool.close()
        await self._controller.close()
        self._closed = True
        if (loss := self._services.open_writers.take_loss()) is not None:
            raise loss

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await close_at_exit(self.close, error)
