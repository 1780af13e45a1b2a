"""Files that somebody keeps open for others, who may use them for the moment only."""

from __future__ import annotations

from typing import NamedTuple


class OpenFile:
    """A descriptor of which the owner may let go at any time.

    Whoever is handed one asks for ``descriptor`` at each use and never keeps it: its number is another file's
    as soon as it is closed.
    """

    __slots__ = ("descriptor",)

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        """-1 once the owner has closed it."""


class FileSpan(NamedTuple):
    """The bytes of an open file from ``offset`` on."""

    file: OpenFile
    offset: int
