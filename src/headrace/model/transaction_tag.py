"""Which part of which batch a transaction belongs to."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TransactionTag:
    """Which part of which batch of which sink a transaction belongs to."""

    sink: str
    query: str
    batch: int
    partition: int = 0
    attempt: int = 0
