"""The claim on a container: the store that serves it now. Its session ends, and the node is gone.

Source: ``docs/formats/coordination-nodes.md``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from headrace.model.fields import FieldReader, FieldWriter

CLAIMS: Final = "claims"
"""The nodes of claims are the children of this one."""

CLAIM_NODE_VERSION: Final = 0
"""A claim is made and deleted, never changed."""

_KIND: Final = b"k"
_VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class Claim:
    """Made after recovery, and deleted before the container ends."""

    store: str
    container_epoch: int


def claim_path(container_id: int) -> str:
    return f"{CLAIMS}/{container_id}"


def encode_container_claim(claim: Claim) -> bytes:
    writer = FieldWriter(_KIND, _VERSION)
    writer.text(claim.store)
    writer.uint(claim.container_epoch)
    return writer.to_bytes()


def decode_container_claim(data: bytes) -> Claim:
    """Raises DataCorruptionError."""
    reader = FieldReader(data, _KIND, (_VERSION,))
    claim = Claim(reader.text(), reader.uint())
    reader.end()
    return claim
