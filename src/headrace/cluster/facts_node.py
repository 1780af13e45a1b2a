"""What a cluster was born with and may not forget, as one node of the coordination.

Source: ``docs/formats/coordination-nodes.md``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from headrace.errors import DataCorruptionError
from headrace.limits import CONTAINERS_MAX
from headrace.model.fields import FieldReader, FieldWriter

FACTS: Final = "facts"
"""The path of the node."""

_KIND: Final = b"f"
_VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class Facts:
    """What every process of one cluster has to know, and finds here alike."""

    system: str
    """The id of the system, as its data carry it."""
    containers: int
    buckets: int
    """0: as the rows say, until a controller has read them and writes it here."""
    log: str
    """URI of the write-ahead logs."""
    storage: str
    """URI of long-term storage."""
    format: int
    """The newest format that may be written."""
    host: str = ""
    """The id of the only machine whose stores may join, for logs in files; empty: any machine."""
    opened: frozenset[int] = frozenset()
    """Containers that were ever opened: a log of theirs that is missing is lost, not new."""

    def with_opened(self, container_id: int) -> Facts:
        """Return these facts once a container has been opened; the same object if it was before."""
        assert 0 <= container_id < self.containers
        if container_id in self.opened:
            return self
        return replace(self, opened=self.opened | {container_id})


def encode_facts(facts: Facts) -> bytes:
    writer = FieldWriter(_KIND, _VERSION)
    writer.text(facts.system)
    writer.uint(facts.containers)
    writer.uint(facts.buckets)
    writer.text(facts.log)
    writer.text(facts.storage)
    writer.uint(facts.format)
    writer.text(facts.host)
    bits = bytearray((facts.containers + 7) // 8)
    for container_id in facts.opened:
        bits[container_id // 8] |= 1 << container_id % 8
    writer.blob(bytes(bits))
    return writer.to_bytes()


def decode_facts(data: bytes) -> Facts:
    """Raises DataCorruptionError."""
    reader = FieldReader(data, _KIND, (_VERSION,))
    system, containers, buckets = reader.text(), reader.uint(), reader.uint()
    log, storage, version, host = reader.text(), reader.text(), reader.uint(), reader.text()
    bits = reader.blob()
    reader.end()
    if not 1 <= containers <= CONTAINERS_MAX or len(bits) != (containers + 7) // 8:
        raise DataCorruptionError(f"facts of {containers} containers have {len(bits)} bytes of bits")
    opened = frozenset(number for number in range(len(bits) * 8) if bits[number // 8] >> number % 8 & 1)
    if opened and max(opened) >= containers:
        raise DataCorruptionError(f"container {max(opened)} was opened, of {containers}")
    return Facts(system, containers, buckets, log, storage, version, host, opened)
