"""A segment id joins the stream epoch that created the segment (high 32 bits) and its number (low 32 bits).

Source: protocol, ids and names; ``docs/formats/names.md``.
"""

from __future__ import annotations

import re
from typing import Final

from headrace.errors import InvalidArgumentError

_TEXT: Final = re.compile(r"([0-9]{1,20})(?:#([0-9]{1,10}))?")


def make_segment_id(number: int, epoch: int) -> int:
    """Return the 64-bit id of segment ``number`` created in stream epoch ``epoch``."""
    assert 0 <= number < 1 << 31
    assert 0 <= epoch < 1 << 31
    return epoch << 32 | number


def number_of(segment_id: int) -> int:
    return segment_id & 0xFFFF_FFFF


def epoch_of(segment_id: int) -> int:
    return segment_id >> 32


def segment_id_text(segment_id: int) -> str:
    """Return a segment id as people read it: ``number#epoch``."""
    return f"{number_of(segment_id)}#{epoch_of(segment_id)}"


def parse_segment_id(text: str) -> int:
    """Return the id that ``number#epoch`` stands for, or the same as one number of 64 bits.

    Raises:
        InvalidArgumentError: it has neither form, or one of its numbers is beyond 31 bits.
    """
    found = _TEXT.fullmatch(text)
    if found is not None:
        number, epoch = int(found[1]), int(found[2] or 0)
        if found[2] is None:
            number, epoch = number_of(number), epoch_of(number)
        if number < 1 << 31 and epoch < 1 << 31:
            return make_segment_id(number, epoch)
    raise InvalidArgumentError(f"{text!r} is no segment: 0#0, or its id as one number")
