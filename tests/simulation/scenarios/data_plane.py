"""A whole segment store, used over the wire with every verb, while everything around it breaks.

Listener, connections, several containers on one small cache, logs, storage: all real. Hosts die, disks fail,
connections drop and clog, storage is slow, full or silent, containers end and recover within a process, and
a second process takes over while the first still thinks it owns. Between two such periods everything is
looked at, and in the end storage alone must have it.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any, Final

from headrace.limits import KIB, MIB
from headrace.runtime.entropy import SeededEntropy
from headrace.testing.failures import StalledError
from headrace.testing.faults.host_faults import HostFault, HostFaults
from headrace.testing.host import SimulatedHost
from headrace.testing.simulation import Simulation
from tests.simulation.models.store_history import TABLES, StoreHistory
from tests.simulation.reduction import ALL, Reduction
from tests.simulation.scenarios.container_profile import TROUBLES, draw_profile
from tests.simulation.scenarios.store_world import PORT, StoreWorld
from tests.simulation.workloads.store_clients import StoreClient

#: How a period ends. All but the last disturb it.
ENDINGS: Final = ("kill", "power_loss", "failures", "move", "stop")

FAULTS: Final = tuple(dict.fromkeys((*ENDINGS[:-1], *(kind.name.lower() for kind in HostFault), *TROUBLES)))

LIVES: Final = 4
CLIENTS: Final = 4
STEPS: Final = 24

#: More than the active segments of a container, with its own.
_STREAMS_MANY: Final = 24

#: Virtual seconds in which clients of a store that nothing disturbs must have their answers.
_STALL_TIMEOUT_S: Final = 600.0
_MUST_ANSWER_S: Final = 120.0
"""However loaded and throttled it is: nothing that is asked takes longer where nothing disturbs."""

_SLOW_LOG_S: Final = 0.1
"""With a log that takes longer for each small frame it may: a checkpoint has a hundred of them."""


async def tempest(sim: Simulation, reduction: Reduction = ALL, *, crowds: bool = False) -> StoreHistory:
    """Let stores come and go while clients work; judge each period; then look at what storage has.

    With ``crowds`` clients ask for many things at once, and for the same again, of logs that may be slow.
    """
    profile = draw_profile(sim.entropy.fork("profile"), reduction)
    profile = replace(profile, **_draw_front(sim.entropy.fork("front")))
    if crowds:
        profile = replace(profile, crowds=True, **_draw_crowded(sim.entropy.fork("crowds")))
    entropy = sim.entropy.fork("endings")
    world = StoreWorld(sim, profile, containers=1 + entropy.randbelow(3))
    one = sim.host("one")
    other = sim.host("other", disk=one.disk)
    for life in range(min(2 + entropy.randbelow(LIVES - 1), reduction.lives)):
        ending = ENDINGS[entropy.randbelow(len(ENDINGS))]
        if ending in reduction.without:
            ending = "stop"
        sim.trace.add("scenario", "life", number=life, ending=ending)
        await _live(world, one, other, ending, life, reduction)
    await _finish(world, one, reduction)
    return world.history


def _draw_crowded(entropy: SeededEntropy) -> dict[str, Any]:
    """Return what is different in a profile whose clients come in crowds: waits and small bounds."""
    draw = entropy.randbelow
    return {
        "log_s_max": (0.0, 0.05, 0.5)[draw(3)],
        "connection_requests_max": (128, 2)[draw(2)],
        "connection_bytes_max": (512 * MIB, 1)[draw(2)],
        "small_reply_bytes_max": (64 * KIB, 1)[draw(2)],
    }


def _draw_front(entropy: SeededEntropy) -> dict[str, Any]:
    """Return, for half of the seeds, what makes connections wait for each other's memory."""
    draw = entropy.randbelow
    if draw(2):
        return {}
    return {
        "receive_buffer_bytes": (256 * KIB, 64)[draw(2)],
        "connection_bytes_max": (512 * MIB, 1)[draw(2)],
    }


async def _live(
    world: StoreWorld,
    one: SimulatedHost,
    other: SimulatedHost,
    ending: str,
    life: int,
    reduction: Reduction,
) -> None:
    """One period: from a store that was looked at to one that is gone."""
    draw = world.entropy.randbelow
    store = await world.begin(one)
    calm = ending == "stop"
    clients = _start_clients(world, f"{life}", reduction)
    if calm:
        await _wait(clients, _STALL_TIMEOUT_S, must=True)
    else:
        kinds = tuple(kind for kind in HostFault if kind.name.lower() not in reduction.without)
        hosts = [one, other] if ending == "move" else [one]
        one.disk.slowness = 10.0 ** draw(3) if world.foundations.has_trouble("slow") else 1.0
        if ending == "failures":
            world.plan_failure(store)
        try:
            await _disturb(world, hosts, kinds, clients)
        except BaseExceptionGroup as group:
            raise _first_of(group) from None  # of the judge, or unhandled
    await _end(world, one, other, ending)


async def _disturb(
    world: StoreWorld,
    hosts: list[SimulatedHost],
    kinds: tuple[HostFault, ...],
    clients: list[asyncio.Task[None]],
) -> None:
    """Let faults happen to ``hosts`` while clients work; the second host takes over from the first."""
    sim, draw = world.sim, world.entropy.randbelow
    async with asyncio.TaskGroup() as trouble:
        tasks = [trouble.create_task(world.keep_serving(hosts[0]))]
        for host in hosts:
            faults = HostFaults(sim, host, every_s=(0.5, 2.0)[draw(2)], kinds=kinds)
            tasks.append(trouble.create_task(faults.run()))
        for other in hosts[1:]:
            await _wait(clients, sim.entropy.random())
            world.history.contested = True
            tasks.append(trouble.create_task(world.keep_serving(other)))
        await _wait(clients, (0.3, 3.0, 8.0)[draw(3)] * sim.entropy.random())
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)


def _first_of(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """Return the first error in a group, a judge's before any other: runs are compared by its type."""
    found: BaseException = group.subgroup(AssertionError) or group
    while isinstance(found, BaseExceptionGroup):
        found = found.exceptions[0]
    return found


async def _end(world: StoreWorld, one: SimulatedHost, other: SimulatedHost, ending: str) -> None:
    """End everything: no client, no store, nothing in flight."""
    world.sim.network.heal()
    world.check_failures(fenced=ending == "move")
    if ending == "stop" and one.is_up:
        await world.stop(one)
    for number in range(CLIENTS):
        world.sim.hosts[f"client-{number}"].kill()
    if ending == "power_loss":
        one.lose_power()
    one.kill()
    other.kill()
    one.disk.heal()
    one.disk.slowness = 1.0


def _start_clients(
    world: StoreWorld, label: str, reduction: Reduction, must_answer_s: float | None = None
) -> list[asyncio.Task[None]]:
    """Start clients, each on a host of its own."""
    sim, profile = world.sim, world.profile
    count = _STREAMS_MANY if sim.entropy.fork("streams").randbelow(4) == 0 else 1 + profile.streams
    streams = [f"scope/stream/{number}.#epoch.0" for number in range(count)]
    cancels = profile.cancels_per_thousand if world.foundations.has_trouble("cancel") else 0
    tasks = []
    for number in range(CLIENTS):
        host = sim.host(f"client-{number}")
        if not host.is_up:
            host.boot()
        if number >= profile.clients:
            continue
        name = f"c{label}.{number}"
        client = StoreClient(
            name,
            [("one", PORT), ("one", PORT), ("other", PORT)],
            world.history,
            sim.entropy.fork(name),
            streams=streams,
            tables=[f"{TABLES}{number}.#epoch.0" for number in range(2)],
            cancels_per_thousand=cancels,
            crowds=profile.crowds,
            must_answer_s=must_answer_s,
        )
        steps = min(STEPS, profile.steps, reduction.steps)
        tasks.append(host.spawn(name, client.work(steps, profile.pause_s_max)))
    return tasks


async def _wait(tasks: list[asyncio.Task[None]], limit_s: float, *, must: bool = False) -> None:
    """Wait until all clients are done, or for ``limit_s`` seconds; a client that failed is a mistake.

    Raises:
        StalledError: that time was over and it ``must`` not be.
    """
    done, left = await asyncio.wait(tasks, timeout=limit_s)
    for task in tasks:
        if task in done:
            task.result()
    if must and left:
        places = [f"{task.get_name()}: {getattr(task, 'place', '?')}" for task in tasks if task in left]
        raise StalledError(f"clients wait for ever: {'; '.join(places)}")


async def _finish(world: StoreWorld, one: SimulatedHost, reduction: Reduction) -> None:
    """Nothing disturbs any more: recover, work, store, recover from storage, and once more."""
    world.foundations.end_troubles()
    other = world.sim.hosts["other"]
    await world.begin(one)
    must_answer_s = None if world.profile.log_s_max > _SLOW_LOG_S else _MUST_ANSWER_S
    await _wait(_start_clients(world, "last", reduction, must_answer_s), _STALL_TIMEOUT_S, must=True)
    await _end(world, one, other, "kill")
    store = await world.begin(one)
    await one.run(world.check_stored(store))
    await _end(world, one, other, "stop")
    for _ in range(2):
        await world.begin(one)
        one.kill()
