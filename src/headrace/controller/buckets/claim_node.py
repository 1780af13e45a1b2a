"""The nodes of buckets that controllers keep with the coordinator: who works on which one.

Source: ``docs/formats/coordination-nodes.md``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from headrace.model.fields import FieldReader, FieldWriter

BUCKETS: Final = "buckets"

_KIND: Final = b"b"
_VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class ClaimNode:
    """The controller that works on a bucket. Its term is 0 until it has drawn one."""

    controller: str
    term: int


def bucket_path(bucket: int) -> str:
    return f"{BUCKETS}/{bucket}"


def encode_claim(node: ClaimNode) -> bytes:
    writer = FieldWriter(_KIND, _VERSION)
    writer.text(node.controller)
    writer.uint(node.term)
    return writer.to_bytes()


def decode_claim(data: bytes) -> ClaimNode:
    """Raises DataCorruptionError."""
    reader = FieldReader(data, _KIND, (_VERSION,))
    node = ClaimNode(reader.text(), reader.uint())
    reader.end()
    return node
