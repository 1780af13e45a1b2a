"""What every part of a client shares: the control plane, connections, chance and time."""

from __future__ import annotations

from dataclasses import dataclass, field

from headrace.client.ack_watch import AckWatch
from headrace.client.connections.pool import ConnectionPool
from headrace.client.control.segments import Segments
from headrace.client.control.tokens import Tokens
from headrace.client.open_writers import OpenWriters
from headrace.runtime.entropy import Entropy
from headrace.runtime.supervisor import Supervisor


@dataclass(slots=True)
class ClientServices:
    """Components handed to writers and readers; they own none of them."""

    uri: str
    """Of the controllers, as it was given."""
    pool: ConnectionPool
    segments: Segments
    tokens: Tokens
    entropy: Entropy
    supervisor: Supervisor
    open_writers: OpenWriters
    acks: AckWatch = field(default_factory=AckWatch)
