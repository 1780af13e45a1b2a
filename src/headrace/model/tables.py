"""Keys and entries of table segments, as they cross every border: wire, container, controller store.

Source: protocol, "Table segments".
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from headrace.limits import INT64_MIN

NO_VERSION: Final = INT64_MIN
"""In a request: unconditional."""

NOT_EXISTS: Final = -1
"""In a request: the key must not exist. In a reply: it does not."""


@dataclass(slots=True)
class TableKey:
    """A key with the version a request requires or a reply reports."""

    key: bytes
    version: int = NO_VERSION


@dataclass(slots=True)
class TableEntry:
    """A key with its version and value."""

    key: bytes
    value: bytes
    version: int = NO_VERSION


@dataclass(slots=True)
class TableInfo:
    """Size of a table segment and of the log behind it, in bytes; ``key_length`` is 0 for hash tables."""

    start_offset: int
    length: int
    entry_count: int
    key_length: int


@dataclass(slots=True)
class TableDelta:
    """What changed in a table since a position of its log."""

    entries: list[TableEntry] = field(default_factory=list)
    should_clear: bool = False
    reached_end: bool = True
    last_position: int = 0
