"""The nodes of controllers that want to lead: the one with the lowest number does.

Source: ``docs/formats/coordination-nodes.md``.
"""

from __future__ import annotations

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


def encode_candidate(controller: str) -> bytes:
    writer = FieldWriter(_KIND, _VERSION)
    writer.text(controller)
    return writer.to_bytes()


def decode_candidate(data: bytes) -> str:
    """Return the id of the controller. Raises DataCorruptionError."""
    reader = FieldReader(data, _KIND, (_VERSION,))
    controller = reader.text()
    reader.end()
    return controller
