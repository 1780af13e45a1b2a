"""What follows an offset, found out in a thread while Spark reads the batch in front of it."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from headrace.errors import HeadraceError

Offset = dict[str, Any]


class LookAhead:
    """At most one search at a time. Its owner waits for it before it touches what the search uses."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, "headrace-look-ahead")  # begins with the first search
        self._search: tuple[Offset, Future[Offset | None]] | None = None

    def begin(self, start: Offset, find: Callable[[], Offset | None]) -> None:
        """Find what follows ``start``."""
        self.take(start)
        self._search = start, self._thread.submit(find)

    def take(self, start: Offset) -> Offset | None:
        """Wait for the search and return, once, what it found behind ``start``; None if it looked elsewhere.

        An error of it is nobody's: whoever asks finds it again.
        """
        if self._search is None:
            return None
        (wanted, search), self._search = self._search, None
        try:
            found = search.result()
        except HeadraceError:
            return None
        return found if wanted == start else None
