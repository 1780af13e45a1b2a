"""What happens to a cluster, and in which order: a seed decides. Pure."""

import random
from dataclasses import dataclass
from enum import Enum


class Kind(Enum):
    """What a fault does to one process."""

    KILL_STORE = "a store is killed"
    SLEEP_STORE = "a store sleeps for longer than its session"
    FREEZE_STORE = "a store sleeps until others serve what it had"
    NAP_STORE = "a store sleeps for less than its session"
    DRAIN_STORE = "a store is drained"
    KILL_CONTROLLER = "a controller that does not lead is killed"
    KILL_LEADER = "the controller that leads is killed"
    SLEEP_LEADER = "the controller that leads sleeps for longer than its session"
    FREEZE_LEADER = "the controller that leads sleeps until clients have left it"
    STOP_LEADER = "the controller that leads is stopped"
    SLEEP_ZOOKEEPER = "ZooKeeper answers nothing for a while"
    RESTART_ZOOKEEPER = "ZooKeeper is killed, and is away for a while"


SLEEPS = {
    Kind.SLEEP_STORE: (1.2, 2.5),
    Kind.NAP_STORE: (0.2, 0.7),
    Kind.SLEEP_LEADER: (1.2, 2.5),
}
"""For how many sessions, at least and at most."""
OF_ZOOKEEPER = (Kind.SLEEP_ZOOKEEPER, Kind.RESTART_ZOOKEEPER)
OF_STORES = (Kind.KILL_STORE, Kind.SLEEP_STORE, Kind.FREEZE_STORE, Kind.NAP_STORE, Kind.DRAIN_STORE)
OFTEN = (Kind.KILL_STORE, Kind.SLEEP_STORE, Kind.DRAIN_STORE)
"""Kinds that a deck has once more, since most depends on them."""


@dataclass(frozen=True)
class Fault:
    """One fault; ``which`` store it strikes is the remainder by how many there are."""

    kind: Kind
    which: int = 0
    lasts_s: float = 0.0
    """Until what sleeps, or is away, goes on."""
    at_once: bool = False
    """Whether a process that died starts again at once, instead of when others have taken over."""


Strike = tuple[Fault, ...]
"""Faults that happen at once; the next ones follow when all is mended."""


def draw_schedule(seed: int, faults: int, session_s: float, zookeeper_s: float) -> list[Strike]:
    """Return strikes of so many faults together: every kind as often as any other, or once more.

    Two faults in five come with another one; two stores of a pair are different ones.
    """
    chance = random.Random(seed)
    deck: list[Kind] = []
    drawn: list[Fault] = []
    while len(drawn) < faults:
        if not deck:
            deck = [*Kind, *OFTEN]
            chance.shuffle(deck)
        drawn.append(_draw_fault(deck.pop(), chance, session_s, zookeeper_s))
    strikes: list[Strike] = []
    while drawn:
        first = drawn.pop()
        if drawn and chance.random() < 0.25 and (second := _beside(first, drawn[-1])) is not None:
            drawn.pop()
            strikes.append((first, second))
        else:
            strikes.append((first,))
    return strikes


def _draw_fault(kind: Kind, chance: random.Random, session_s: float, zookeeper_s: float) -> Fault:
    lasts_s = 0.0
    if kind in SLEEPS:
        lasts_s = session_s * chance.uniform(*SLEEPS[kind])
    elif kind in OF_ZOOKEEPER:
        lasts_s = zookeeper_s
    return Fault(kind, chance.randrange(6), lasts_s, chance.random() < 0.5)


def _beside(first: Fault, second: Fault) -> Fault | None:
    """Return the second of a pair; None if it cannot strike at the same time."""
    if first.kind in OF_ZOOKEEPER and second.kind in OF_ZOOKEEPER:
        return None
    if first.kind in OF_STORES and second.kind in OF_STORES and (first.which - second.which) % 3 == 0:
        return Fault(second.kind, second.which + 1, second.lasts_s, second.at_once)
    if first.kind not in OF_STORES and second.kind not in OF_STORES:
        return None  # both would strike the leader, or none would lead
    return second
