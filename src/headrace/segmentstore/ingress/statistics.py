"""Statistics of connections."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class IngressStatistics:
    """Counters of all connections since the start."""

    connections_accepted: int = 0
    connections_refused: int = 0
    handshakes: int = 0
    """Connections whose TLS handshake is not finished now."""

    handshakes_failed: int = 0
    connections: int = 0
    """Those that are open now."""

    bytes_received: int = 0
    bytes_sent: int = 0
    """Given to the system to be sent."""

    appends: int = 0
    append_runs: int = 0
    reads: int = 0
    requests: int = 0
    violations: int = 0
    writers_refused: int = 0
    """Writers beyond the limit of a connection."""

    capacity_waits: int = 0
    memory_waits: int = 0
    """How often a large frame, a request or a large reply waited for its lease."""

    connections_stalled: int = 0
    """Connections that were closed because others waited for the leases of their stalled clients."""

    receive_bytes_lent: int = 0
    """Leases for large frames with appends now."""

    request_bytes: int = 0
    """Leases for requests now: large ones from the beginning of their frame, others while they run."""

    table_reply_bytes: int = 0
    """Leases for large replies about tables now: from before they are put together until they are sent."""

    unsent_bytes: int = 0
    """Charges for other unsent replies now, and for requests whose replies wait for a client."""

    waiting_reads: int = 0
    """Reads that wait at the tail now."""

    waiting_refusals: int = 0
    """Answers to refused appends, and to repeated set-ups, that wait for acknowledgements now."""

    writers: int = 0
    """Writers that are set up now."""
