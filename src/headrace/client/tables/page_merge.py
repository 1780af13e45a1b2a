"""Merges sorted pages of several partitions into one sequence sorted by key. Pure.

What can be given out is what does not lie behind the last key of any page whose partition goes on: no later
page has anything in front of it. Sorting whole pages costs less than comparing entries one by one.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from operator import itemgetter
from typing import Any, Final

_KEY_OF: Final = itemgetter(0)


class PageMerge:
    """Takes pages as they come and gives out what is certain. The first field of an item is its key.

    Bounded by one page of each partition.
    """

    __slots__ = ("_ended", "_pages")

    def __init__(self, partitions: int) -> None:
        self._pages: list[Sequence[Any]] = [()] * partitions
        self._ended = [False] * partitions

    @property
    def wanted(self) -> list[int]:
        """The partitions of which nothing is left, and more may come."""
        return [n for n, page in enumerate(self._pages) if not page and not self._ended[n]]

    def add(self, partition: int, page: Sequence[Any], *, is_last: bool) -> None:
        """Add the next page of a wanted partition; ``is_last``: nothing follows it."""
        assert not self._pages[partition]
        assert not self._ended[partition]
        assert page or is_last
        self._pages[partition] = page
        self._ended[partition] = is_last

    def take(self) -> list[Any]:
        """Return what comes next, in order; nothing only if nothing is left. None may be wanted."""
        assert not self.wanted
        pages = self._pages
        going_on = [_KEY_OF(page[-1]) for n, page in enumerate(pages) if not self._ended[n]]
        if not going_on:
            left = [item for page in pages for item in page]
            pages[:] = [()] * len(pages)
        else:
            bound = min(going_on)
            left = []
            for n, page in enumerate(pages):
                if page:
                    end = bisect_right(page, bound, key=_KEY_OF)
                    left += page[:end]
                    pages[n] = page[end:]
        if len(pages) > 1:
            left.sort(key=_KEY_OF)
        return left
