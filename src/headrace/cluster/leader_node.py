"""The nodes of controllers that want to lead: the one with the lowest number does.

Source: ``docs/formats/coordination-nodes.md``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from headrace.model.fields import FieldReader, FieldWriter

LEADER: Final = "leader"
"""The nodes of candidates are the children of this one."""

CANDIDATE: Final = f"{LEADER}/n"
"""The path that is created; the coordinator adds ten digits."""

_KIND: Final = b"l"
_VERSION: Final = 1


def candidate_path(name: str) -> str:
    return f"{LEADER}/{name}"


@dataclass(frozen=True, slots=True)
class Candidate:
    """A controller that is alive, whether or not it answers calls yet."""

    controller: str
    address: str = ""
    """Of its REST interface, where its health is asked; empty if it has none."""


def encode_candidate(candidate: Candidate) -> bytes:
    writer = FieldWriter(_KIND, _VERSION)
    writer.text(candidate.controller)
    writer.text(candidate.address)
    return writer.to_bytes()


def decode_candidate(data: bytes) -> Candidate:
    """Raises DataCorruptionError."""
    reader = FieldReader(data, _KIND, (_VERSION,))
    candidate = Candidate(reader.text(), reader.text())
    reader.end()
    return candidate
