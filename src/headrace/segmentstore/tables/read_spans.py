"""Joins entries that lie close together in a log into few reads: a read costs more than some bytes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from headrace.limits import KIB, MIB

#: Bytes nobody asked for that are cheaper to read than to leave out.
GAP_BYTES_MAX: Final = 4 * KIB

#: A span is closed when it would become longer than this, unless one entry alone is.
SPAN_BYTES_MAX: Final = 1 * MIB


@dataclass(slots=True)
class Span:
    """``length`` bytes from ``offset``, and which of the wanted entries are in them."""

    offset: int
    length: int
    members: list[int] = field(default_factory=list)


def plan_spans(wanted: Sequence[tuple[int, int]]) -> list[Span]:
    """Cover the wanted ``(offset, length)`` pairs with few reads; pairs may repeat but not overlap
    otherwise.
    """
    spans: list[Span] = []
    last: Span | None = None
    for number in sorted(range(len(wanted)), key=lambda number: wanted[number]):
        offset, length = wanted[number]
        end = offset + length
        if (
            last is None
            or offset - (last.offset + last.length) > GAP_BYTES_MAX
            or end - last.offset > SPAN_BYTES_MAX
        ):
            last = Span(offset, length)
            spans.append(last)
        last.length = max(last.length, end - last.offset)
        last.members.append(number)
    return spans
