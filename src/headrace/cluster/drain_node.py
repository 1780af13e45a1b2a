"""The wish of an operator that a store hands over all that it has: a node that outlives the store's session.

Source: ``docs/formats/coordination-nodes.md``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from headrace.cluster.store_node import StoreNode
from headrace.model.endpoint import Endpoint
from headrace.model.fields import FieldReader, FieldWriter

DRAINS: Final = "drains"
"""The nodes of drains are the children of this one, by the ids that the stores had."""

DRAIN_NODE_VERSION: Final = 0
"""A drain is made and deleted, never changed."""

_KIND: Final = b"d"
_VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class Drain:
    """Of one process: it has another id after each session, and the same start."""

    endpoint: Endpoint
    started_ms: int

    @classmethod
    def of(cls, node: StoreNode) -> Drain:
        """Return what a drain of this store says."""
        return cls(node.endpoint, node.started_ms)


def drain_path(store: str) -> str:
    return f"{DRAINS}/{store}"


def encode_drain(drain: Drain) -> bytes:
    writer = FieldWriter(_KIND, _VERSION)
    writer.text(drain.endpoint.host)
    writer.uint(drain.endpoint.port)
    writer.uint(drain.started_ms)
    return writer.to_bytes()


def decode_drain(data: bytes) -> Drain:
    """Raises DataCorruptionError."""
    reader = FieldReader(data, _KIND, (_VERSION,))
    drain = Drain(Endpoint(reader.text(), reader.uint()), reader.uint())
    reader.end()
    return drain
