"""Files that their owner keeps open, and that other components use for a moment."""

from __future__ import annotations

from typing import NamedTuple


class OpenFile:
    """A descriptor that its owner may close at any time.

    A user reads ``descriptor`` at each use and never stores it: once closed, its number may be another
    file's.
    """

    __slots__ = ("descriptor",)

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        """-1 once the owner has closed it."""


class FileSpan(NamedTuple):
    """The bytes of an open file from ``offset`` on."""

    file: OpenFile
    offset: int
