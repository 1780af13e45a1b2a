"""A segment id joins the stream epoch that created the segment (high 32 bits) and its number (low 32 bits).

Source: protocol, ids and names; ``docs/formats/names.md``.
"""

from __future__ import annotations


def make_segment_id(number: int, epoch: int) -> int:
    """Return the 64-bit id of segment ``number`` created in stream epoch ``epoch``."""
    assert 0 <= number < 1 << 31
    assert 0 <= epoch < 1 << 31
    return epoch << 32 | number


def number_of(segment_id: int) -> int:
    return segment_id & 0xFFFF_FFFF


def epoch_of(segment_id: int) -> int:
    return segment_id >> 32
