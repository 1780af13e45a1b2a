"""Which bookies a new ledger is written to: those that are alive, spread over zones, not those that failed
just now.

ZooKeeper lists a dead bookie until its session ends, which takes up to half a minute. So one that did not
answer is in quarantine for a while: it is taken only if there are too few others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

from headrace.wal.bookkeeper.ledger_nodes import Bookie
from headrace.wal.bookkeeper.quorums import Quorums

QUARANTINE_S: Final = 30.0
_NAMES_MAX: Final = 1000


@dataclass(frozen=True, slots=True)
class EnsembleChoice:
    """The bookies of a new ledger."""

    bookies: tuple[Bookie, ...]
    quorums: Quorums
    is_degraded: bool
    """There are fewer bookies than wanted: a ledger on more of them is better, once there are."""


def choose_ensemble(
    writable: Sequence[Bookie], wanted: Quorums, quarantined: Collection[str], draw: int
) -> EnsembleChoice | None:
    """Choose among ``writable`` bookies; None: there are fewer than have to confirm an entry.

    Args:
        writable: all that are alive and take adds.
        wanted: how many there should be; fewer are taken if there are no more, down to ``wanted.ack``.
        quarantined: ids of bookies that are taken last.
        draw: any number; different ones spread ledgers over the bookies.
    """
    in_order = sorted(writable, key=lambda bookie: bookie.id)
    start = draw % max(1, len(in_order))
    in_order = in_order[start:] + in_order[:start]
    good = [bookie for bookie in in_order if bookie.id not in quarantined]
    chosen = _spread(good, wanted.ensemble)
    if len(chosen) < wanted.ack:
        chosen += [bookie for bookie in in_order if bookie.id in quarantined][: wanted.ack - len(chosen)]
    if len(chosen) < wanted.ack:
        return None
    quorums = wanted.shrunk(len(chosen))
    return EnsembleChoice(tuple(chosen), quorums, quorums != wanted)


def _spread(bookies: Sequence[Bookie], count: int) -> list[Bookie]:
    """Take each time one of a zone that was taken least."""
    left, chosen = list(bookies), list[Bookie]()
    taken = Counter[str]()
    while left and len(chosen) < count:
        best = min(left, key=lambda bookie: taken[bookie.zone])
        left.remove(best)
        taken[best.zone] += 1
        chosen.append(best)
    return chosen


class Quarantine:
    """Bookies that failed just now. Callers pass the time, in seconds of one clock."""

    def __init__(self) -> None:
        self._until: dict[str, float] = {}

    def add(self, bookie: str, now: float) -> None:
        """Note that ``bookie`` did not answer, or refused, at ``now``."""
        self._until.pop(bookie, None)
        self._until[bookie] = now + QUARANTINE_S
        while len(self._until) > _NAMES_MAX:
            del self._until[next(iter(self._until))]

    def ids(self, now: float) -> set[str]:
        """Return those that are in quarantine."""
        self._until = {bookie: until for bookie, until in self._until.items() if until > now}
        return set(self._until)
