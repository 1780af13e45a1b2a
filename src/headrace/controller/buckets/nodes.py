"""The nodes that controllers keep with the coordinator: who is alive, and who works on which bucket.

Source: ``docs/formats/coordination-nodes.md``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from headrace.controller.store.rows.fields import FieldReader, FieldWriter
from headrace.model.endpoint import Endpoint

CONTROLLERS: Final = "controllers"
BUCKETS: Final = "buckets"

MEMBER_KIND: Final = b"c"
CLAIM_KIND: Final = b"b"
VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class MemberNode:
    """A controller that is alive; the name of the node is its id."""

    endpoint: Endpoint
    """Where clients find it."""
    started_ms: int
    software: str


@dataclass(frozen=True, slots=True)
class ClaimNode:
    """The controller that works on a bucket. Its term is 0 until it has drawn one."""

    controller: str
    term: int


def member_path(controller: str) -> str:
    return f"{CONTROLLERS}/{controller}"


def bucket_path(bucket: int) -> str:
    return f"{BUCKETS}/{bucket}"


def encode_member(node: MemberNode) -> bytes:
    writer = FieldWriter(MEMBER_KIND, VERSION)
    writer.text(node.endpoint.host)
    writer.uint(node.endpoint.port)
    writer.uint(node.started_ms)
    writer.text(node.software)
    return writer.to_bytes()


def decode_member(data: bytes) -> MemberNode:
    """Raises DataCorruptionError."""
    reader = FieldReader(data, MEMBER_KIND, (VERSION,))
    node = MemberNode(Endpoint(reader.text(), reader.uint()), reader.uint(), reader.text())
    reader.end()
    return node


def encode_claim(node: ClaimNode) -> bytes:
    writer = FieldWriter(CLAIM_KIND, VERSION)
    writer.text(node.controller)
    writer.uint(node.term)
    return writer.to_bytes()


def decode_claim(data: bytes) -> ClaimNode:
    """Raises DataCorruptionError."""
    reader = FieldReader(data, CLAIM_KIND, (VERSION,))
    node = ClaimNode(reader.text(), reader.uint())
    reader.end()
    return node
