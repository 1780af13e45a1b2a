"""The node of a process that is alive: where others find it. Its session ends, and the node is gone.

Source: ``docs/formats/coordination-nodes.md``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from headrace.model.endpoint import Endpoint
from headrace.model.fields import FieldReader, FieldWriter

CONTROLLERS: Final = "controllers"
"""The nodes of controllers are the children of this one."""

_KIND: Final = b"c"
_VERSION: Final = 2
_VERSION_WITHOUT_FORMATS: Final = 1


@dataclass(frozen=True, slots=True)
class MemberNode:
    """A controller that is alive; the name of the node is its id."""

    endpoint: Endpoint
    """Where clients find it."""
    started_ms: int
    software: str
    formats: tuple[int, ...] = ()
    """At each of them it can take part; empty: it does not say."""


def member_path(controller: str) -> str:
    return f"{CONTROLLERS}/{controller}"


def encode_member(node: MemberNode) -> bytes:
    writer = FieldWriter(_KIND, _VERSION)
    writer.text(node.endpoint.host)
    writer.uint(node.endpoint.port)
    writer.uint(node.started_ms)
    writer.text(node.software)
    writer.uint(len(node.formats))
    for version in node.formats:
        writer.uint(version)
    return writer.to_bytes()


def decode_member(data: bytes) -> MemberNode:
    """Raises DataCorruptionError."""
    reader = FieldReader(data, _KIND, (_VERSION_WITHOUT_FORMATS, _VERSION))
    endpoint, started_ms, software = Endpoint(reader.text(), reader.uint()), reader.uint(), reader.text()
    says = reader.version > _VERSION_WITHOUT_FORMATS
    formats = tuple(reader.uint() for _ in range(reader.count())) if says else ()
    reader.end()
    return MemberNode(endpoint, started_ms, software, formats)
