"""Loses power before, within and after every durable write of a scenario, one at a time.

def write_two(disk: SimulatedDisk) -> None:
    ...                                     # anything that reaches the disk, through a simulation or
    directly

for point, disk in each_power_loss(write_two):
    ...                                     # the disk holds what the power loss left: recover and check
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from headrace.runtime.entropy import SeededEntropy
from headrace.testing.disk import DiskConfig, Moment, SimulatedDisk
from headrace.testing.failures import PowerLossError


@dataclass(frozen=True, slots=True)
class CrashPoint:
    """Where power was lost; with the scenario it says everything that is needed to repeat it."""

    seed: int
    durable_write: int
    moment: Moment


def each_power_loss(
    scenario: Callable[[SimulatedDisk], None],
    *,
    seeds: Iterable[int] = range(3),
    config: DiskConfig | None = None,
) -> Iterator[tuple[CrashPoint, SimulatedDisk]]:
    """Run ``scenario`` once for each durable write and moment, and yield the disk that is left each time.

    The scenario must do the same each time. The seed decides what survives of unsynced and torn writes.
    """
    for seed in seeds:
        for durable_write in range(1, _count_durable_writes(scenario, seed, config) + 1):
            for moment in Moment:
                disk = SimulatedDisk(SeededEntropy(f"{seed}/{durable_write}/{moment.value}"), config)
                disk.plan_power_loss(durable_write, moment)
                with contextlib.suppress(PowerLossError):
                    scenario(disk)
                assert not disk.powered, f"the scenario has no durable write {durable_write} this time"
                disk.restore_power()
                disk.check()
                yield CrashPoint(seed, durable_write, moment), disk


def _count_durable_writes(
    scenario: Callable[[SimulatedDisk], None], seed: int, config: DiskConfig | None
) -> int:
    disk = SimulatedDisk(SeededEntropy(seed), config)
    scenario(disk)
    return disk.statistics().durable_writes
