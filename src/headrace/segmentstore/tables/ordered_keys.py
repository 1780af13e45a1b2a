"""Keys of one table in ascending order, so that iterators can go on after any key whatever changed meanwhile.

Two levels: a list of short sorted lists, and the first key of each. Adding, removing and finding a key
cost two binary searches and one short move, at any size.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from itertools import pairwise
from typing import Final

BLOCK_KEYS_MAX: Final = 512
"""A block that grows beyond this is split in halves."""


class OrderedKeys:
    """A sorted set of byte strings, compared as unsigned bytes."""

    __slots__ = ("_blocks", "_count", "_firsts")

    def __init__(self, keys: Iterable[bytes] = ()) -> None:
        ordered = sorted(set(keys))
        step = BLOCK_KEYS_MAX // 2
        self._blocks = [ordered[i : i + step] for i in range(0, len(ordered), step)]
        self._firsts = [block[0] for block in self._blocks]
        self._count = len(ordered)

    def __len__(self) -> int:
        return self._count

    def __contains__(self, key: bytes) -> bool:
        if not self._firsts:
            return False
        block = self._blocks[self._block_of(key)]
        at = bisect_left(block, key)
        return at < len(block) and block[at] == key

    def add(self, key: bytes) -> None:
        """Add ``key``; nothing happens if it is there."""
        if not self._blocks:
            self._blocks, self._firsts, self._count = [[key]], [key], 1
            return
        number = self._block_of(key)
        block = self._blocks[number]
        at = bisect_left(block, key)
        if at < len(block) and block[at] == key:
            return
        block.insert(at, key)
        self._count += 1
        if at == 0:
            self._firsts[number] = key
        if len(block) > BLOCK_KEYS_MAX:
            # Keys that come in order fill blocks nearly to the end, and do not leave them half full.
            cut = len(block) - 8 if at == len(block) - 1 else len(block) // 2
            upper = block[cut:]
            del block[cut:]
            self._blocks.insert(number + 1, upper)
            self._firsts.insert(number + 1, upper[0])

    def discard(self, key: bytes) -> None:
        """Remove ``key`` if it is there."""
        if not self._blocks:
            return
        number = self._block_of(key)
        block = self._blocks[number]
        at = bisect_left(block, key)
        if at == len(block) or block[at] != key:
            return
        del block[at]
        self._count -= 1
        if not block:
            del self._blocks[number]
            del self._firsts[number]
        elif at == 0:
            self._firsts[number] = block[0]

    def page(self, start: bytes, count: int, *, inclusive: bool) -> list[bytes]:
        """Return up to ``count`` keys in order, from ``start`` or, if not ``inclusive``, after it."""
        if not self._blocks or count <= 0:
            return []
        number = self._block_of(start)
        block = self._blocks[number]
        at = bisect_left(block, start) if inclusive else bisect_right(block, start)
        found = block[at : at + count]
        while len(found) < count and number + 1 < len(self._blocks):
            number += 1
            found += self._blocks[number][: count - len(found)]
        return found

    def check(self) -> None:
        """Assert the invariants."""
        assert self._firsts == [block[0] for block in self._blocks]
        assert self._count == sum(len(block) for block in self._blocks)
        flat = [key for block in self._blocks for key in block]
        assert all(a < b for a, b in pairwise(flat))
        assert all(0 < len(block) <= BLOCK_KEYS_MAX for block in self._blocks)

    def _block_of(self, key: bytes) -> int:
        return max(0, bisect_right(self._firsts, key) - 1)
