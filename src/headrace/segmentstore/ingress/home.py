"""What connections share: store, budget, counters; and the interface of a connection to its parts."""

from __future__ import annotations

import asyncio
import logging
from typing import Any, Final, Protocol

from headrace.errors import StorageReadError, StorageReadRefusedError
from headrace.runtime.repeated_lines import RepeatedLines
from headrace.runtime.supervisor import Supervisor
from headrace.segmentstore.ingress.authorisation import Authorise
from headrace.segmentstore.ingress.budget import CHECKS_PER_STALL, ByteBudget, LeaseOwner
from headrace.segmentstore.ingress.charges import ChargedKind
from headrace.segmentstore.ingress.config import IngressConfig
from headrace.segmentstore.ingress.contract import StoreFacade
from headrace.segmentstore.ingress.statistics import IngressStatistics
from headrace.segmentstore.ingress.transient_segments import TransientSegments
from headrace.wire.commands.kinds import Request

_logger = logging.getLogger(__name__)

_UNREAD_EVERY_S: Final = 60.0
_UNREAD_MAX: Final = 100
"""Segments, with a reason each, of which it is said in that time that they cannot be read."""

_SHOWN_CHARS: Final = 300
"""Of a name, which may be one that a client made up."""


class ServedConnection(LeaseOwner, Protocol):
    """A connection as its parts and its home use it."""

    peer: str
    transients: TransientSegments

    @property
    def is_lost(self) -> bool:
        """Whether no answer can be sent any more."""

    @property
    def bytes_sent(self) -> int:
        """How many bytes were given to the system to be sent."""

    def send(self, frame: bytes) -> None:
        """Send a frame behind everything sent before."""

    def on_error(self, command: Request, error: Exception) -> None:
        """A request failed: answer, or close if there is no answer to that."""

    def on_busy(self, change: int) -> None:
        """One more writer (1), or one less (-1), has appends in flight."""

    def on_answered(self) -> None:
        """A request, or the set-up of a writer, was answered."""

    def unblock(self, reason: int) -> None:
        """``reason`` no longer blocks the dispatch of received bytes."""

    def close_after_replies(self, reason: str) -> None:
        """Accept nothing more, send the owed replies, close. Idempotent."""

    def statistics(self) -> dict[str, Any]:
        """What it is doing now, for the console."""


class ConnectionHome:
    """The listener as its connections use it. Runs on the store's loop."""

    def __init__(self, store: StoreFacade, config: IngressConfig, authorise: Authorise) -> None:
        self.store = store
        self.config = config
        self.authorise = authorise
        self.supervisor = Supervisor("ingress")
        self.totals = IngressStatistics()
        self.budget = budget = ByteBudget(config.connection_bytes_max, self._on_waiting)
        self.waiting_reads = ChargedKind(budget, config.waiting_reads_max)
        self.waiting_refusals = ChargedKind(budget, config.waiting_refusals_max)
        self.writers = ChargedKind(budget, config.writers_max)
        self._connections: dict[ServedConnection, None] = {}
        self._watch: asyncio.TimerHandle | None = None
        self._unread = RepeatedLines(_UNREAD_EVERY_S, _UNREAD_MAX)

    def report_unread(self, segment: str, error: StorageReadError) -> None:
        """Log that a request failed since long-term storage did not answer: once a minute for each reason."""
        segment = segment[:_SHOWN_CHARS]
        reason = error.reason if isinstance(error, StorageReadRefusedError) else type(error).__name__
        unsaid = self._unread.due((segment, reason), asyncio.get_running_loop().time())
        if unsaid is not None:
            more = f" (and {unsaid} such failures since the last line)" if unsaid else ""
            _logger.warning("segment %s cannot be read from long-term storage: %s%s", segment, error, more)

    def receive_buffer_bytes(self) -> int:
        """Return the size of a new connection's buffer under load."""
        raise NotImplementedError

    def on_opened(self, connection: ServedConnection, transport: asyncio.BaseTransport) -> bool:
        """Return whether the connection is accepted."""
        raise NotImplementedError

    def on_lost(self, connection: ServedConnection) -> None:
        """The connection is lost and has released what it consumed."""
        raise NotImplementedError

    def _on_waiting(self) -> None:
        """A lease waits: check for stalled clients from now on."""
        if self._watch is None:
            loop = asyncio.get_running_loop()
            self._watch = loop.call_later(self.config.stall_s / CHECKS_PER_STALL, self._check_stalls, loop)

    def _check_stalls(self, loop: asyncio.AbstractEventLoop) -> None:
        self._watch = None
        for lease, age_s in list(self.budget.overdue(loop.time(), self.config.stall_s)):
            lease.owner.on_overdue(lease, age_s)
        if self.budget.waiting:
            self._on_waiting()
