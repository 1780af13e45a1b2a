"""Attributes in words: the core ones by name, the rest by their ids, which are writers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final
from uuid import UUID

from headrace.model import attributes as attr
from headrace.model.attributes import ATTRIBUTE_NULL
from headrace.segmentstore.state.segment_state import SegmentState

_NAMES: Final[dict[bytes, str]] = {
    attr.CREATION_TIME: "creation_time",
    attr.EVENT_COUNT: "event_count",
    attr.SCALE_POLICY_TYPE: "scale_policy_type",
    attr.SCALE_POLICY_RATE: "scale_policy_rate",
    attr.ROLLOVER_SIZE: "rollover_size",
    attr.SEGMENT_TYPE: "segment_type",
    attr.ATTRIBUTE_ID_LENGTH: "attribute_id_length",
    attr.CREATION_EPOCH: "creation_epoch",
    attr.TABLE_INDEX_OFFSET: "table_index_offset",
    attr.TABLE_COMPACTION_OFFSET: "table_compaction_offset",
}
_ID_BYTES: Final = 16
_TYPES: Final = (
    (attr.TYPE_FIXED_KEY_TABLE, "fixed-key table"),
    (attr.TYPE_TABLE, "table"),
    (attr.TYPE_SYSTEM, "system"),
    (attr.TYPE_INTERNAL, "internal"),
    (attr.TYPE_CRITICAL, "critical"),
    (attr.TYPE_TRANSIENT, "transient"),
)


def attribute_name(attribute_id: bytes) -> str:
    """Return the name of a core attribute, ``writer <uuid>``, or the id in hex if it is neither."""
    if attr.is_core_attribute(attribute_id):
        number = int.from_bytes(attribute_id[8:], "big")
        return _NAMES.get(attribute_id) or f"core_{number}"
    if len(attribute_id) == _ID_BYTES:
        return f"writer {UUID(bytes=attribute_id)}"
    return attribute_id.hex()


def attribute_words(values: Mapping[bytes, int]) -> dict[str, int | None]:
    """Return values by name, core ones first; None for one that was removed."""
    ordered = sorted(values, key=lambda key: (not attr.is_core_attribute(key), key))
    return {attribute_name(key): None if values[key] == ATTRIBUTE_NULL else values[key] for key in ordered}


def kind_of(segment: SegmentState) -> str:
    """Return what kind of segment it is, in words."""
    return segment_type_words(max(0, segment.attribute(attr.SEGMENT_TYPE)))


def segment_type_words(bits: int) -> str:
    """Return what the bits of a segment's type mean: ``stream``, ``table``, ``table, system`` ..."""
    words = []
    for mask, word in _TYPES:
        if bits & mask == mask:
            words.append(word)
            bits &= ~mask
    return ", ".join(words) or "stream"
