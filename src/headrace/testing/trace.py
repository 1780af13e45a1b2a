"""What happened in a simulation, line by line, so that two runs of one seed can be compared and one be read.

A line is ``<virtual seconds> <source> <event> <key>=<value> ...``. Values must not depend on the process: no
addresses, no real times, no hashes. Every line goes into a digest; the last ones are retained to be shown.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable
from typing import Final

#: Lines retained by default; a failed simulation shows the last of them.
LINES_RETAINED_DEFAULT: Final = 2_000


class Trace:
    """An append-only record of one simulation."""

    def __init__(
        self, now: Callable[[], float], *, lines_retained: int | None = LINES_RETAINED_DEFAULT
    ) -> None:
        self._now = now
        self._lines: deque[str] = deque(maxlen=lines_retained)
        self._digest = hashlib.blake2b(digest_size=16)
        self.count = 0

    def add(self, source: str, event: str, /, **fields: object) -> None:
        """Append one line."""
        pairs = "".join(
            [
                f" {key}={value if type(value) is str or type(value) is int else _text(value)}"
                for key, value in fields.items()
            ]
        )
        line = f"{self._now():.9f} {source} {event}{pairs}"
        self._lines.append(line)
        self._digest.update(line.encode())
        self._digest.update(b"\n")
        self.count += 1

    @property
    def lines(self) -> list[str]:
        """The retained lines, oldest first."""
        return list(self._lines)

    @property
    def digest(self) -> str:
        """Hexadecimal digest of every line so far, retained or not."""
        return self._digest.hexdigest()


def _text(value: object) -> str:
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value).hex()
    if isinstance(value, float):
        return f"{value:.9f}"
    return str(value)
