"""What every part of a client shares: the control plane, connections, chance and time."""

from __future__ import annotations

from dataclasses import dataclass, field

from headrace.client.ack_watch import AckWatch
from headrace.client.connections.pool import ConnectionPool
from headrace.client.control.segments import Segments
from headrace.client.control.tokens import Tokens
from headrace.client.open_writers import OpenWriters
from headrace.model.names import TABLE_SUFFIX, segment_name, transaction_segment_name
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


@dataclass(frozen=True, slots=True)
class SegmentAddress:
    """A segment with everything that is needed to find its owner. ``txn_id`` names a transaction's shadow
    of it.
    """

    scope: str
    stream: str
    segment_id: int
    txn_id: int | None = None

    @property
    def name(self) -> str:
        """The qualified name on the wire."""
        primary = segment_name(self.scope, self.stream, self.segment_id)
        return primary if self.txn_id is None else transaction_segment_name(primary, self.txn_id)

    @property
    def token_stream(self) -> str:
        """The stream that tokens are asked for. Those for a partition have the bare name of its table."""
        return self.stream.removesuffix(TABLE_SUFFIX)
