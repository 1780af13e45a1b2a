"""The log over BookKeeper, as plans, while bookies are paused, killed, emptied and cut off, fences are lost,
and owners take the log from each other while the former ones go on.
"""

from __future__ import annotations

from collections.abc import Generator
from random import Random
from typing import Any, Final

from headrace.testing.simulation import Simulation
from headrace.wal.bookkeeper.ledger_nodes import ledger_path
from headrace.wal.bookkeeper.log_node import decode_log
from headrace.wal.bookkeeper.quorums import Quorums
from tests.simulation.reduction import Reduction
from tests.simulation.worlds.ledger_world import LOG, Client, Condition, JudgementError, LedgerWorld, Owner

OWNERS: Final = 4
STEPS: Final = 150
"""Frames that an owner appends, if it has the time."""
FAULTS: Final[tuple[str, ...]] = (
    "cut",
    "pause",
    "kill",
    "die",
    "repair",
    "take_over",
    "lost_fence",
    "lost_disk",
    "slow",
)

_SHAPES: Final = (
    (3, Quorums(3, 3, 2)),
    (3, Quorums(3, 3, 2)),
    (4, Quorums(3, 3, 2)),
    (4, Quorums(4, 3, 2)),
    (5, Quorums(5, 5, 3)),
    (2, Quorums(3, 3, 2)),
)
_CALM_STEPS_MAX: Final = 20_000


async def upheaval(sim: Simulation, reduction: Reduction) -> int:
    """Run one history; return how many frames were acknowledged.

    Raises:
        JudgementError: a promise of the log is broken.
    """
    return run(sim.entropy.randbelow(1 << 32), reduction=reduction)


def run(
    seed: int, client: Client | None = None, *, reduction: Reduction | None = None, owners: int = OWNERS
) -> int:
    """Run one history, without a loop."""
    random = Random(seed)
    bookies, quorums = random.choice(_SHAPES)
    world = LedgerWorld(seed, bookies=bookies, quorums=quorums, client=client or Client())
    faults, appends = FAULTS, STEPS
    if reduction is not None:
        faults = tuple(fault for fault in FAULTS if fault not in reduction.without)
        appends, owners = min(STEPS, reduction.steps), min(OWNERS, reduction.lives)
    loses_disk = "lost_disk" in faults and random.random() < 0.2
    trouble = _Trouble(world, random, faults)
    for number in range(owners):
        owner = Owner(world, appends)
        world.owners.append(owner)
        world.lost_fences = random.choice((0.1, 0.5)) if "lost_fence" in faults else 0.0
        if "slow" in faults:
            world.slow_down()
        world.start(owner.live())
        for _ in range(random.randrange(50, 800)):
            if not world.step():
                break
            if random.random() < 0.03:
                trouble.strike()
        if loses_disk and number == 0 and owner.read is not None:
            # From then on there is one copy less of what was written: no further bookie may fail.
            world.heal()
            lost = random.choice(list(world.bookies.values()))
            world.kill(lost)
            lost.restart(disk_lost=True)
            trouble.is_calm = world.a_disk_is_lost = True
    world.heal()
    for owner in world.owners:
        owner.appends = 0
    _settle(world, lambda: all(owner.is_over for owner in world.owners))
    judge = Owner(world, 0)
    world.owners.append(judge)
    world.start(judge.live())
    _settle(world, lambda: judge.is_over)
    if judge.read is None:
        raise JudgementError("the log cannot be recovered, though all bookies are there")
    return len(world.acknowledged)


def _settle(world: LedgerWorld, is_over: Any) -> None:
    for _ in range(_CALM_STEPS_MAX):
        if is_over():
            return
        if not world.step():
            break
    if not is_over():
        raise JudgementError("an owner does not end, though all bookies are there")


class _Trouble:
    """Does one of the faults, or ends one."""

    def __init__(self, world: LedgerWorld, random: Random, faults: tuple[str, ...]) -> None:
        self.is_calm = False
        self._world = world
        self._random = random
        self._faults = faults

    def strike(self) -> None:
        fault = self._random.choice((*FAULTS, "mend", "mend", "mend"))
        if fault != "mend" and fault not in self._faults:
            return
        world, random = self._world, self._random
        bookie = random.choice(list(world.bookies.values()))
        if fault == "die":
            if random.random() < 0.2:
                random.choice(world.owners).die()
        elif fault == "repair":
            self._repair()
        elif self.is_calm:
            return
        elif fault == "cut":
            world.cut_one()
        elif fault == "pause":
            bookie.is_paused = True
        elif fault == "kill":
            world.kill(bookie)
        elif fault == "mend":
            bookie.is_paused = False
            if not bookie.is_up:
                bookie.restart()

    def _repair(self) -> None:
        """BookKeeper's own repair recovers a ledger of a live owner."""
        if "slow" in self._faults:
            self._world.slow_down()
        node = decode_log(self._world.nodes.read(LOG)[0], 0)
        if node.ledgers:
            repairer = Owner(self._world, 0)
            self._world.start(_ignore(repairer, node.ledgers[-1].ledger))


def _ignore(repairer: Owner, ledger: int) -> Generator[Condition, None, None]:
    assert ledger_path(ledger)
    yield from repairer.recover(ledger)
