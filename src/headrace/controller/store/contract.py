"""Versioned rows in tables: the one thing every controller shares, and the only place where it decides.

A row is a key with a value and a version. Versions are not negative and strictly increase within a table; the
writes of one update are versioned in their order, so versions also order the writes of two rows. An update
changes all of its rows or none. Every implementation passes the kit in
``headrace.testing.conformance.metadata_store``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from headrace.model.tables import NO_VERSION, NOT_EXISTS

ANY: Final = NO_VERSION
"""In ``Write.expected``: whatever is there."""

ABSENT: Final = NOT_EXISTS
"""In ``Write.expected``: the row must not exist."""


@dataclass(slots=True)
class Row:
    """A value as it was read."""

    value: bytes
    version: int


@dataclass(slots=True)
class Write:
    """One change of one row: a new value, or None to delete it, if the row has the expected version."""

    key: bytes
    value: bytes | None
    expected: int = ANY


@dataclass(slots=True)
class Page:
    """Some rows of a table with the token that resumes after them. The listing is over when it is empty."""

    rows: list[tuple[bytes, Row]]
    token: bytes


class MetadataStore(Protocol):
    """Tables of rows. Keys are 1 to 8192 bytes, a row at most 1 MiB, values are not empty."""

    async def create_table(self, table: str) -> None:
        """Make sure that ``table`` exists."""

    async def delete_table(self, table: str, *, must_be_empty: bool = False) -> None:
        """Make sure that ``table`` does not exist.

        Raises:
            TableNotEmptyError: it holds rows and must not; nothing changed. No row can appear between the
                check and the deletion.
        """

    async def get(self, table: str, key: bytes) -> Row | None:
        """Raises NoSuchTableError."""

    async def get_many(self, table: str, keys: Sequence[bytes]) -> list[Row | None]:
        """Return the rows in the order of ``keys``. Raises NoSuchTableError."""

    async def update(self, table: str, writes: Sequence[Write]) -> list[int]:
        """Make all ``writes`` (distinct keys, at least one) or none; return the new versions in their order.

        The version returned for a deletion means nothing. Deleting an absent row with ``ANY`` succeeds.

        Raises:
            MetadataConflictError: a row has not the expected version; nothing changed.
            NoSuchTableError: the table does not exist.
            UnknownOutcomeError: it may have happened; read back.
        """

    async def scan(self, table: str, token: bytes, count: int) -> Page:
        """Return up to ``count`` rows that follow ``token`` (empty: from the start) in an order of the
        store's own.

        A row that exists throughout a listing is seen exactly once. The token stays good across restarts. A
        page is short at will but empty only at the end. Raises NoSuchTableError, InvalidArgumentError (a
        token of another listing).
        """
