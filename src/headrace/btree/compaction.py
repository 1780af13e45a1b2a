"""Which pages an update moves to the end of the log, so that the log can be truncated."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from headrace.btree.page_format import HEADER_BYTES, LOWEST_AT, POINTER, VALUE_BYTES, Page

_FEW_CHILDREN: Final = 64


@dataclass(frozen=True, slots=True)
class CompactionPolicy:
    """How many pages an update moves besides those that it changes."""

    move_lowest: bool = True
    """The page with the lowest offset is written by every update, changed or not."""
    pages_max: int = 64
    """Further pages that one update moves, at most; 0: the log has no bound."""
    factor: float = 2.5
    """Pages are moved while the log behind the lowest offset is longer than so many times the live bytes."""
    append_split: bool = True
    """The last page of a level stays full when it is split."""


def find_lowest(page: Page, lowest: int, key_bytes: int) -> int | None:
    """Return the slot of the child of an index page that has ``lowest`` in its subtree, or None."""
    stride = key_bytes + POINTER.size
    begin = HEADER_BYTES + key_bytes
    pattern = lowest.to_bytes(VALUE_BYTES, "big")
    at = page.find(pattern, begin)
    while at >= 0:
        slot, rest = divmod(at - begin, stride)
        if rest in {0, LOWEST_AT}:  # the child itself, or one below it
            return slot
        at = page.find(pattern, at + 1)
    return None


def lowest_of_children(page: Page, count: int, key_bytes: int) -> int:
    """Return the lowest offset in the subtrees of an index page."""
    if count >= _FEW_CHILDREN:
        from headrace.btree.many import read_lowest  # loads numpy

        return int(read_lowest(page, count, key_bytes).min())
    return min(_read_lowest(page, count, key_bytes))


def children_below(page: Page, count: int, key_bytes: int, bound: int) -> list[tuple[int, int]]:
    """Return the children of an index page whose subtrees begin below ``bound``: lowest offset, slot."""
    if count >= _FEW_CHILDREN:
        from headrace.btree.many import find_below, read_lowest  # loads numpy

        return find_below(read_lowest(page, count, key_bytes), bound)
    lowest = _read_lowest(page, count, key_bytes)
    return [(offset, slot) for slot, offset in enumerate(lowest) if offset < bound]


def _read_lowest(page: Page, count: int, key_bytes: int) -> list[int]:
    at, stride = HEADER_BYTES + key_bytes, key_bytes + POINTER.size
    return [POINTER.unpack_from(page, at + slot * stride)[2] for slot in range(count)]
