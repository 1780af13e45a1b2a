"""Unfinished merges: ranges of a segment whose bytes are still those of another one."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Generic, TypeVar

S = TypeVar("S")
"""The index of a source."""


@dataclass(slots=True, eq=False)
class Redirect(Generic[S]):
    """``[offset, end)`` of a target is ``[0, end - offset)`` of ``source`` until storage has joined them."""

    offset: int
    end: int
    source: S


class Redirects(Generic[S]):
    """The redirects of one target, by offset. They begin at its end, so they come in order."""

    __slots__ = ("_redirects",)

    def __init__(self) -> None:
        self._redirects: list[Redirect[S]] = []

    def __len__(self) -> int:
        return len(self._redirects)

    def __iter__(self) -> Iterator[Redirect[S]]:
        return iter(self._redirects)

    def __contains__(self, redirect: object) -> bool:
        return redirect in self._redirects

    def push(self, redirect: Redirect[S]) -> None:
        """Add a redirect behind all others."""
        self._redirects.append(redirect)

    def remove(self, redirect: Redirect[S]) -> None:
        """Remove a redirect; usually the first one."""
        self._redirects.remove(redirect)

    def take_below(self, end: int) -> list[Redirect[S]]:
        """Remove and return those that end at or before ``end``. O(removed), for replay calls it often."""
        count = bisect_right(self._redirects, end, key=_end_of)
        taken = self._redirects[:count]
        del self._redirects[:count]
        return taken

    def find(self, offset: int) -> Redirect[S] | None:
        """Return the redirect which ``offset`` lies in."""
        slot = bisect_right(self._redirects, offset, key=_offset_of) - 1
        if slot < 0 or offset >= self._redirects[slot].end:
            return None
        return self._redirects[slot]

    def next_offset(self, offset: int, limit: int) -> int:
        """Return where the next redirect after ``offset`` begins, at most ``limit``."""
        slot = bisect_right(self._redirects, offset, key=_offset_of)
        return min(limit, self._redirects[slot].offset) if slot < len(self._redirects) else limit

    def touches(self, offset: int, end: int) -> bool:
        """Whether a byte of ``[offset, end)`` lies in a redirect."""
        return bool(self._redirects) and (
            self.find(offset) is not None or self.next_offset(offset, end) < end
        )

    def check(self) -> None:
        """Assert that redirects are in order and apart."""
        assert all(redirect.offset < redirect.end for redirect in self._redirects)
        assert all(left.end <= right.offset for left, right in pairwise(self._redirects))


def _offset_of(redirect: Redirect[S]) -> int:
    return redirect.offset


def _end_of(redirect: Redirect[S]) -> int:
    return redirect.end
