"""Bounds of the front door."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.limits import KIB, MIB


@dataclass(frozen=True, slots=True, kw_only=True)
class IngressConfig:
    """Values only."""

    connections_max: int = 10_000
    """Further connections are closed at once."""

    receive_buffer_bytes: int = 256 * KIB
    """A connection's buffer under load. Frames that do not fit have to take room of ``receive_bytes_max``."""

    receive_bytes_max: int = 256 * MIB
    """Room for larger frames of all connections. One frame always fits. So many connections as fit into it
    have the buffer above, further ones a quarter of that."""

    frame_patience_s: float = 30.0
    """Who has room for a large frame and has not sent it after this time is closed, if others wait for room.
    """

    frame_stall_s: float = 5.0
    """The same for who has sent nothing of it for this time."""

    write_buffer_bytes_max: int = 1 * MIB
    """A connection whose client takes its replies too slowly is not read from while more than this is unsent.
    """

    unsent_bytes_max: int = 256 * MIB
    """Beyond so much unsent of all connections, each is read from only while nothing of its own is, and reads
    are answered in small pieces."""

    requests_max: int = 128
    """Requests of one connection that run at the same time, without appends and reads; further ones wait."""

    request_bytes_max: int = 256 * MIB
    """Bytes of running requests of all connections, without appends and reads. One request always fits."""

    waiting_reads_max: int = 16_384
    """Reads of one connection that wait at the tail; one more closes it."""

    waiting_reads_total_max: int = 200_000
    """Reads of all connections that wait, some 3 KiB each. Beyond it a connection that has more than a few is
    closed by its next one."""

    writers_total_max: int = 500_000
    """Writers that all connections have set up, some 1.2 KiB each. The same."""

    transients_max: int = 1_000
    """Transient segments of one connection; one more is refused."""

    drain_s: float = 5.0
    """How long a connection that is being closed may take to send the replies it owes."""
