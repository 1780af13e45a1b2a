"""The manifest of a storage checkpoint, byte for byte: what was copied, and what its parts must look like.

Big-endian:

======  ====  ======================  ======================================================================
offset  size  field                   meaning
======  ====  ======================  ======================================================================
0       4     magic                   ``HRSM``
4       4     crc                     crc32c of all bytes from 8 on
8       1     version                 1
9       1     flags                   1: written by a rebuild, as the first of its container epoch
10      2     length of the system    bytes of ``system``
12      4     container               whose log was copied
16      4     containers              how many the system has
20      8     epoch                   container epoch of the owner
28      8     number                  of the checkpoint, rising within a container epoch
36      8     time                    when the log was copied, ms since 1970
44      8     sequence                last sequence number of the container then
52      8     first free garbage      no garbage batch from this number on was committed before the copy
60      8     records                 of the log, in all parts
68      8     incarnation             eight hex digits: that of the container's chunks; zeros if it has none
76      4     parts                   how many
80      ..    lengths, sums           of each part: 4 bytes length, 4 bytes crc32c of the whole object
..      ..    system                  id of the system in UTF-8; empty if it has none
======  ====  ======================  ======================================================================

Source: docs/formats/storage-checkpoint.md; pinned by tests/golden/storage_checkpoint.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from struct import Struct
from typing import Final, NamedTuple

from crc32c import crc32c

from headrace.errors import ChecksumMismatchError, DataCorruptionError
from headrace.storage.checkpoints.object_names import PARTS_MAX, CheckpointId
from headrace.storage.chunks.chunk_names import INCARNATION_CHARS

MAGIC: Final = b"HRSM"
VERSION: Final = 1
MANIFEST_BYTES_MAX: Final = 1_000_000
_REBUILT: Final = 1
_HEAD: Final = Struct(">4sIBBHIIQQqQQQ8sI")
_CRC: Final = Struct(">I")
_PART: Final = Struct(">II")
_CRC_FROM: Final = 8
_NO_INCARNATION: Final = bytes(INCARNATION_CHARS)

assert _HEAD.size == 80


class PartFact(NamedTuple):
    """Length and crc32c of one part."""

    length: int
    checksum: int


@dataclass(frozen=True, slots=True)
class SystemFacts:
    """What a storage checkpoint says about the system of its container."""

    containers: int
    system_id: str = ""


@dataclass(frozen=True, slots=True)
class Manifest:
    """A whole storage checkpoint without its parts. Times in ms since 1970."""

    container: int
    containers: int
    checkpoint: CheckpointId
    time_ms: int
    sequence: int
    first_free_garbage: int
    records: int
    incarnation: str
    """Empty if the container had made no chunk."""
    parts: Sequence[PartFact]
    system: str = ""
    rebuilt: bool = False
    """Written by a rebuild: the copy is that of an earlier checkpoint, ``time_ms`` its time."""

    @property
    def size_bytes(self) -> int:
        """Bytes of all parts."""
        return sum(part.length for part in self.parts)


def encode_manifest(manifest: Manifest) -> bytes:
    """Return the object. Its system id has at most 255 bytes."""
    assert len(manifest.parts) <= PARTS_MAX
    system = manifest.system.encode()
    head = bytearray(
        _HEAD.pack(
            MAGIC,
            0,
            VERSION,
            _REBUILT if manifest.rebuilt else 0,
            len(system),
            manifest.container,
            manifest.containers,
            manifest.checkpoint.epoch,
            manifest.checkpoint.number,
            manifest.time_ms,
            manifest.sequence,
            manifest.first_free_garbage,
            manifest.records,
            manifest.incarnation.encode() or _NO_INCARNATION,
            len(manifest.parts),
        )
    )
    for part in manifest.parts:
        head += _PART.pack(*part)
    head += system
    _CRC.pack_into(head, 4, crc32c(head[_CRC_FROM:]))
    return bytes(head)


def decode_manifest(data: bytes | memoryview, name: str = "?") -> Manifest:
    """Take the object ``name`` apart.

    Raises:
        DataCorruptionError: it is no manifest, or damaged.
    """
    if len(data) < _HEAD.size:
        raise DataCorruptionError(f"a manifest of {len(data)} bytes", path=name)
    magic, crc, version, flags, system_length, *fields, count = _HEAD.unpack_from(data)
    if magic != MAGIC:
        raise DataCorruptionError("no manifest of a storage checkpoint", path=name)
    if crc32c(data[_CRC_FROM:]) != crc:
        raise ChecksumMismatchError("a manifest fails its checksum", path=name)
    if version != VERSION or flags & ~_REBUILT:
        raise DataCorruptionError(f"a manifest of unknown version {version} or flags {flags:#x}", path=name)
    system_at = _HEAD.size + count * _PART.size
    if len(data) != system_at + system_length:
        raise DataCorruptionError(f"a manifest of {count} parts has {len(data)} bytes", path=name)
    container, containers, epoch, number, time_ms, sequence, garbage, records, incarnation = fields
    parts = [PartFact(*part) for part in _PART.iter_unpack(bytes(data[_HEAD.size : system_at]))]
    try:
        return Manifest(
            container,
            containers,
            CheckpointId(epoch, number),
            time_ms,
            sequence,
            garbage,
            records,
            "" if incarnation == _NO_INCARNATION else incarnation.decode(),
            parts,
            bytes(data[system_at:]).decode(),
            bool(flags & _REBUILT),
        )
    except UnicodeDecodeError as error:
        raise DataCorruptionError(f"a manifest has a name that is no text: {error}", path=name) from error
