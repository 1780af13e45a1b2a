"""The node of a segment store that is alive: where clients find it, what it can take, what failed there.

Source: ``docs/formats/coordination-nodes.md``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from headrace.errors import DataCorruptionError
from headrace.model.endpoint import Endpoint
from headrace.model.fields import FieldReader, FieldWriter

STORES: Final = "stores"
"""The nodes of stores are the children of this one."""

_KIND: Final = b"s"
_VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class StoreNode:
    """A store that is alive; the name of the node is its id."""

    endpoint: Endpoint
    """Where clients find it."""
    rest: Endpoint | None = None
    zone: str = ""
    """What fails together, as an operator names it."""
    host: str = ""
    """The id of its machine."""
    capacity: int = 1
    """How much of the load it can take beside others: one of 2 gets twice as much as one of 1."""
    started_ms: int = 0
    software: str = ""
    formats: tuple[int, ...] = ()
    """Those that it reads."""
    draining: bool = False
    """Whether its containers are to move elsewhere."""
    failures: Mapping[int, int] = field(default_factory=dict)
    """How often each container that failed here has."""


def store_path(store: str) -> str:
    return f"{STORES}/{store}"


def encode_store(node: StoreNode) -> bytes:
    assert node.capacity >= 1
    writer = FieldWriter(_KIND, _VERSION)
    for endpoint in (node.endpoint, node.rest or Endpoint("", 0)):
        writer.text(endpoint.host)
        writer.uint(endpoint.port)
    writer.text(node.zone)
    writer.text(node.host)
    writer.uint(node.capacity)
    writer.uint(node.started_ms)
    writer.text(node.software)
    writer.uint(len(node.formats))
    for version in node.formats:
        writer.uint(version)
    writer.flag(node.draining)
    writer.uint(len(node.failures))
    for container_id, count in sorted(node.failures.items()):
        writer.uint(container_id)
        writer.uint(count)
    return writer.to_bytes()


def decode_store(data: bytes) -> StoreNode:
    """Raises DataCorruptionError."""
    reader = FieldReader(data, _KIND, (_VERSION,))
    endpoint, rest = (Endpoint(reader.text(), reader.uint()) for _ in range(2))
    node = StoreNode(
        endpoint,
        rest if rest.host else None,
        reader.text(),
        reader.text(),
        reader.uint(),
        reader.uint(),
        reader.text(),
        tuple(reader.uint() for _ in range(reader.count())),
        reader.flag(),
        {reader.uint(): reader.uint() for _ in range(reader.count(2))},
    )
    reader.end()
    if node.capacity < 1:
        raise DataCorruptionError("the node of a store says that it can take nothing")
    return node
