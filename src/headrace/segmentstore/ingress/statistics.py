"""What the front door counts."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class IngressStatistics:
    """Counters of all connections since the start."""

    connections_accepted: int = 0
    connections_refused: int = 0
    bytes_received: int = 0
    appends: int = 0
    append_runs: int = 0
    reads: int = 0
    requests: int = 0
    violations: int = 0
    writers_refused: int = 0
    """Writers beyond what a connection may have."""

    capacity_waits: int = 0
    memory_waits: int = 0
    """How often a connection waited for the room of a large frame."""

    frames_overdue: int = 0
    """Connections that were closed because others waited for the room of a frame that did not arrive."""

    receive_bytes_lent: int = 0
    """Room that connections have for large frames now."""

    replies_overdue: int = 0
    """Connections that were closed because others waited for the room of a reply that was not taken."""

    table_reply_bytes: int = 0
    """Room of large replies to questions about tables now: while they are put together, and not taken."""

    table_reply_waits: int = 0
    """How often one waited for its room."""

    unsent_bytes: int = 0
    """Replies that clients have not taken now, at most."""

    waiting_reads: int = 0
    """Reads that wait at the tail now."""

    waiting_refusals: int = 0
    """Answers to refused appends, and to repeated set-ups, that wait for acknowledgements now."""

    writers: int = 0
    """Writers that are set up now."""
