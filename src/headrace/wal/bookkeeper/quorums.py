"""How many bookies have an entry, how many must have confirmed it, and which of an ensemble they are."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TypeVar

from headrace.errors import InvalidArgumentError
from headrace.wal.bookkeeper.ledger_metadata import BOOKIES_MAX

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Quorums:
    """An entry is on ``write`` of ``ensemble`` bookies, and acknowledged when ``ack`` of those have it."""

    ensemble: int = 3
    write: int = 3
    ack: int = 2

    def check(self) -> None:
        """Raises InvalidArgumentError."""
        if not 1 <= self.ack <= self.write <= self.ensemble <= BOOKIES_MAX:
            raise InvalidArgumentError(
                f"ack={self.ack}, write={self.write} and ensemble={self.ensemble} do not fit: none is less "
                f"than 1 or larger than the next one, and an ensemble has at most {BOOKIES_MAX} bookies"
            )

    @property
    def proof(self) -> int:
        """How many of ``write`` bookies can speak for all: so many that the others are fewer than ``ack``."""
        return self.write - self.ack + 1

    def shrunk(self, count: int) -> Quorums:
        """Return what is left of this with ``count`` bookies, not fewer than ``ack``."""
        assert count >= self.ack
        return Quorums(min(self.ensemble, count), min(self.write, count), self.ack)


def write_set(bookies: Sequence[T], write: int, entry: int) -> tuple[T, ...]:
    """Return the bookies of an ensemble that have ``entry``."""
    return tuple(bookies[(entry + number) % len(bookies)] for number in range(write))


def is_covered(bookies: Sequence[str], write: int, proof: int, found: Collection[str]) -> bool:
    """Whether ``found`` has ``proof`` bookies of those of any entry of the ensemble."""
    return all(
        sum(each in found for each in write_set(bookies, write, entry)) >= proof
        for entry in range(len(bookies))
    )
