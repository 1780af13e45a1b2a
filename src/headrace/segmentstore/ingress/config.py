"""Bounds of the front door."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.limits import GIB, KIB, MIB
from headrace.runtime.settings import tunable


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionMemoryConfig:
    """What all connections of the data protocol together may take of memory."""

    request_bytes_max: int = tunable(
        256 * MIB,
        low=1,
        high=1024 * GIB,
        help="Requests that run, without appends and reads; 128 bytes more for each key, entry, update or "
        "name that they list. One always fits. As much again may wait for clients that do not take their "
        "replies.",
    )
    receive_bytes_max: int = tunable(
        256 * MIB,
        low=1,
        high=1024 * GIB,
        help="Frames on their way that do not fit the buffer of their connection. It has 256 KiB; 64 KiB in "
        "connections beyond as many as would take all of this. One frame always fits.",
    )
    unsent_bytes_max: int = tunable(
        256 * MIB,
        low=0,
        high=1024 * GIB,
        help="Replies that are not taken. Beyond it reads are answered in small pieces, and whoever has "
        "anything unsent is not read from.",
    )
    table_reply_bytes_max: int = tunable(
        128 * MIB,
        low=1,
        high=1024 * GIB,
        help="Replies about tables of more than 64 KiB, from before they are put together until they are "
        "taken. One always fits. Beyond it iterators answer small pages, and larger replies wait: who does "
        "not take one for 5 s meanwhile, or not all of it in 30 s, is closed.",
    )
    waiting_reads_total_max: int = tunable(
        200_000,
        low=1,
        high=100_000_000,
        help="Reads that wait at the tail, 3 KiB each. Beyond it a connection that has more than 64 is "
        "closed by its next one.",
    )
    waiting_refusals_total_max: int = tunable(
        500_000,
        low=1,
        high=100_000_000,
        help="Answers to refused appends, and to writers that are set up again, that wait for what their "
        "writers have in flight, 140 bytes each; up to 1 KiB with long names. Beyond it a connection that "
        "has more than 64 is closed by its next one.",
    )
    writers_total_max: int = tunable(
        500_000,
        low=1,
        high=100_000_000,
        help="Writers that are set up, 1.2 KiB each. Beyond it a connection that has 64 gets no further one.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class IngressConfig(ConnectionMemoryConfig):
    """Values only."""

    connections_max: int = 10_000
    """Further connections are closed at once."""

    receive_buffer_bytes: int = 256 * KIB
    """A connection's buffer under load, or a quarter of it: see ``receive_bytes_max``."""

    frame_patience_s: float = 30.0
    """Who has room for a large frame and has not sent it after this time is closed, if others wait for room.
    """

    taking_patience_s: float = 120.0
    """The same for whose frame is there and cannot be taken: one container that stands would have all of the
    room before long, and keep everybody else from sending large frames."""

    frame_stall_s: float = 5.0
    """The same for who has sent nothing of it for this time."""

    small_reply_bytes_max: int = 64 * KIB
    """A reply about a table of this size needs no room: see ``table_reply_bytes_max``."""

    reply_patience_s: float = 30.0
    """Who has room for a large reply and has not taken it after this time is closed, if others wait for room.
    """

    reply_stall_s: float = 5.0
    """The same for who has taken nothing for this time."""

    write_buffer_bytes_max: int = 1 * MIB
    """A connection whose client takes its replies too slowly is not read from while more than this is unsent.
    """

    requests_max: int = 128
    """Requests of one connection that run at the same time, without appends and reads; further ones wait."""

    waiting_reads_max: int = 16_384
    """Reads of one connection that wait at the tail; one more closes it."""

    waiting_refusals_max: int = 65_536
    """Refusals of one connection that wait for acknowledgements; one more closes it."""

    transients_max: int = 1_000
    """Transient segments of one connection; one more is refused."""

    drain_s: float = 5.0
    """How long a connection that is being closed may take to send the replies it owes."""
