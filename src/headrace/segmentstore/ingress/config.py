"""Bounds of connections."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.limits import KIB, MIB
from headrace.wire.server_session import WRITERS_MAX


@dataclass(frozen=True, slots=True, kw_only=True)
class IngressConfig:
    """Values only."""

    connections_max: int = 10_000
    """Further connections are closed at once."""

    connection_bytes_max: int = 512 * MIB
    """The byte budget of all connections together: see ``budget``. Their buffers come on top."""

    stall_s: float = 30.0
    """While other connections wait for the byte budget, a client is closed that has not sent the frame, or
    taken the reply, of its lease in this time."""

    receive_buffer_bytes: int = 256 * KIB
    """A connection's buffer under load; a quarter of it once the buffers would exceed half of
    ``connection_bytes_max``."""

    small_reply_bytes_max: int = 64 * KIB
    """A reply about a table of this size needs no lease."""

    write_buffer_bytes_max: int = 1 * MIB
    """A connection is not read while more than this is unsent."""

    requests_max: int = 128
    """Requests of one connection that run at the same time, without appends and reads; further ones wait."""

    waiting_reads_max: int = 16_384
    """Reads of one connection that wait at the tail; one more closes it."""

    waiting_refusals_max: int = 65_536
    """Refusals of one connection that wait for acknowledgements; one more closes it."""

    writers_max: int = WRITERS_MAX
    """Writers of one connection; one more is refused."""

    transients_max: int = 1_000
    """Transient segments of one connection; one more is refused."""

    drain_s: float = 5.0
    """How long a connection that is being closed may take to send the replies it owes."""
