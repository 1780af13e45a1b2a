"""Segment attributes: 16-byte ids (or fixed-length keys), signed 64-bit values, five kinds of update.

Source: the wire protocol (docs/formats/wire.md, "Primitives": attribute update).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from headrace.limits import INT64_MIN

ATTRIBUTE_NULL: Final = INT64_MIN
"""The value of an attribute that is not set. Writing it removes the attribute."""

CORE_ATTRIBUTE_PREFIX: Final = b"\x80\x00\x00\x00\x00\x00\x00\x00"


def core_attribute(number: int) -> bytes:
    """Return the id of core attribute ``number``: always in memory, part of every metadata checkpoint."""
    return CORE_ATTRIBUTE_PREFIX + number.to_bytes(8, "big")


CREATION_TIME: Final = core_attribute(0)
EVENT_COUNT: Final = core_attribute(1)
SCALE_POLICY_TYPE: Final = core_attribute(2)
SCALE_POLICY_RATE: Final = core_attribute(3)
ROLLOVER_SIZE: Final = core_attribute(4)
SEGMENT_TYPE: Final = core_attribute(9)
ATTRIBUTE_ID_LENGTH: Final = core_attribute(12)
CREATION_EPOCH: Final = core_attribute(15)
TABLE_INDEX_OFFSET: Final = core_attribute(1 << 20)
TABLE_COMPACTION_OFFSET: Final = core_attribute((1 << 20) + 4)
TABLE_HASH_SEED: Final = core_attribute((1 << 20) + 64)  # ours: 0 or absent, keys are hashed without one

# Bits of SEGMENT_TYPE.
TYPE_STREAM: Final = 0
TYPE_TABLE: Final = 0x01
TYPE_FIXED_KEY_TABLE: Final = 0x05
TYPE_INTERNAL: Final = 0x10
TYPE_SYSTEM: Final = 0x30
TYPE_CRITICAL: Final = 0x40
TYPE_TRANSIENT: Final = 0x80


class UpdateKind(IntEnum):
    """How an attribute update treats the existing value. Numbers are those of the wire."""

    SET_IF_ABSENT = 0
    REPLACE = 1
    REPLACE_IF_GREATER = 2
    ACCUMULATE = 3
    REPLACE_IF_EQUALS = 4


@dataclass(slots=True)
class AttributeUpdate:
    """One update of one attribute; ``expected`` matters for ``REPLACE_IF_EQUALS`` only."""

    attribute_id: bytes
    kind: UpdateKind
    value: int
    expected: int = ATTRIBUTE_NULL


def is_core_attribute(attribute_id: bytes) -> bool:
    return attribute_id[:8] == CORE_ATTRIBUTE_PREFIX and len(attribute_id) == 16
