"""One container used directly with every verb, by several clients, while its owners end in every way.

Tens of calls per millisecond of a core: no wire, no second container. What must survive is everything that
``container_model`` knows, over every ending, and in the end storage alone must have it, exactly.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Sequence
from typing import Any, Final

from headrace.errors import CorruptionError, HeadraceError
from headrace.testing.failures import SimulationError, StalledError
from headrace.testing.host import HostDownError
from headrace.testing.object_store_faults import FaultyObjectStore, ObjectStoreFaults
from headrace.testing.simulation import Simulation
from tests.simulation.models.container_calls import DeleteSegmentCall
from tests.simulation.models.container_history import ContainerHistory
from tests.simulation.models.offline_check import check_offline
from tests.simulation.reduction import ALL, Reduction
from tests.simulation.scenarios.container_profile import ENDINGS, ContainerProfile, draw_profile
from tests.simulation.scenarios.container_world import LOG, ContainerWorld, Owner
from tests.simulation.scenarios.far_storage import TIDY_S, draw_far, tidying
from tests.simulation.scenarios.rebuilding import (
    NO_COPIES,
    draw_copies,
    rebuild_log,
    with_copies,
    with_copies_by_hand,
)
from tests.simulation.workloads.attribute_client import AttributeClient
from tests.simulation.workloads.container_clients import ContainerClient

#: Virtual seconds in which clients of an owner that nothing ends must have their answers.
_STALL_TIMEOUT_S: Final = 300.0


async def upheaval(
    sim: Simulation,
    reduction: Reduction = ALL,
    *,
    chains: bool = False,
    attributes: bool = False,
    objects: bool = False,
) -> ContainerHistory:
    """Let owners come and go while clients work; judge each period; then look at what storage has.

    With ``objects`` that is an object store across a network, and in the end the check of a stopped container
    finds nothing there that is damaged or not needed.
    """
    profile = draw_profile(sim.entropy.fork("profile"), reduction)
    if chains:
        profile = _chained(profile)
    if objects:
        profile = draw_far(profile, sim.entropy.fork("far"), reduction)
        profile = with_copies(profile, draw_copies(sim.entropy.fork("copies")))
    profile = dataclasses.replace(profile, attributes=attributes)
    world = ContainerWorld(sim, profile)
    entropy = sim.entropy.fork("endings")
    host = sim.host("store")
    for life in range(profile.lives):
        ending = ENDINGS[entropy.randbelow(len(ENDINGS))]
        if ending in reduction.without:
            ending = "stop"
        sim.trace.add("scenario", "life", number=life, ending=ending)
        world.endings[ending] = world.endings.get(ending, 0) + 1
        owner = await world.start_owner(host)
        host.disk.slowness = 10.0 ** entropy.randbelow(3) if world.foundations.has_trouble("slow") else 1.0
        if world.foundations.has_trouble("disk") and profile.file_chunks:
            host.disk.fail("pwrite", "fdatasync", "open", path="/chunks/", skip=entropy.randbelow(30))
        if entropy.randbelow(4):
            world.plan(owner, ending)
        clients = start_clients(world, owner, f"{life}")
        if ending == "rival":
            await _compete(world, owner, clients, life)
        elif ending == "stop":
            await wait_for(owner, clients, _STALL_TIMEOUT_S, must=True)
            await world.end(owner, ending)
        else:
            await wait_for(owner, clients, (0.03, 0.3, 3.0)[entropy.randbelow(3)] * entropy.random())
            await world.end(owner, ending)
        await _see_off(owner, clients, fenced=ending == "rival")
        world.note_attributes(owner)
    await _finish(world)
    return world.history


def _chained(profile: ContainerProfile) -> ContainerProfile:
    """Have what is merged be merged into before.

    Storage that is slow and fails takes longer than usual for such chains; until then no client should be
    refused because no slot for a segment is free.
    """
    eviction = dataclasses.replace(profile.container.eviction, eviction_cut_s=60.0)
    container = dataclasses.replace(profile.container, eviction=eviction)
    return dataclasses.replace(profile, chains=True, container=container)


def start_clients(world: ContainerWorld, owner: Owner, label: str) -> list[asyncio.Task[None]]:
    """Start the clients of one owner, in its process."""
    profile = world.profile
    cancels = world.foundations.has_trouble("cancel")
    tasks = []
    for number in range(profile.clients):
        name = f"c{label}.{number}"
        client = (AttributeClient if profile.attributes else ContainerClient)(
            name,
            owner.container,
            world.history,
            world.sim.entropy.fork(name),
            world.known,
            streams=profile.streams,
            cancels_per_thousand=profile.cancels_per_thousand if cancels else 0,
            chains=profile.chains,
        )
        tasks.append(owner.host.spawn(name, client.work(profile.steps, profile.pause_s_max)))
    return tasks


async def wait_for(
    owner: Owner, tasks: Sequence[asyncio.Task[Any]], limit_s: float, *, must: bool = False
) -> None:
    """Wait until all tasks are done or the owner has ended, or for ``limit_s`` seconds.

    Raises:
        StalledError: that time was over and it ``must`` not be.
    """
    over = asyncio.ensure_future(owner.over.wait())
    done = asyncio.ensure_future(asyncio.wait(tasks))
    ended, _ = await asyncio.wait([over, done], timeout=limit_s, return_when=asyncio.FIRST_COMPLETED)
    for task in (over, done):
        task.cancel()
    if must and not ended:
        places = [f"{task.get_name()}: {getattr(task, 'place', '?')}" for task in tasks if not task.done()]
        raise StalledError(f"clients wait for ever: {'; '.join(places)}")


async def _see_off(owner: Owner, tasks: Sequence[asyncio.Task[None]], *, fenced: bool = False) -> None:
    """Every client of an owner that has ended is notified; one that fails otherwise is a mistake.

    An owner that was ``fenced`` may miss objects that its successor has collected, and report corruption.
    """
    if owner.lives and tasks:
        done = asyncio.ensure_future(asyncio.wait(tasks))
        killed = asyncio.ensure_future(_wait_killed(owner))
        ended, _ = await asyncio.wait(
            [done, killed], timeout=_STALL_TIMEOUT_S, return_when=asyncio.FIRST_COMPLETED
        )
        for task in (done, killed):
            task.cancel()
        if not ended:
            places = [
                f"{task.get_name()}: {getattr(task, 'place', '?')}" for task in tasks if not task.done()
            ]
            raise StalledError(f"clients of an owner that has ended still wait: {'; '.join(places)}")
    for task in tasks:
        if task.done() and not task.cancelled():
            task.result()
    if owner.failure is not None and not isinstance(owner.failure, HeadraceError | OSError):
        raise SimulationError(f"the container died of {owner.failure!r}") from owner.failure
    if isinstance(owner.failure, CorruptionError) and not fenced:
        raise owner.failure


async def _wait_killed(owner: Owner) -> None:
    gone = asyncio.Event()
    owner.process.on_kill(gone.set)
    await gone.wait()


async def _compete(world: ContainerWorld, owner: Owner, clients: list[asyncio.Task[None]], life: int) -> None:
    """Let a second process take the container over while the first works on; then end both."""
    sim = world.sim
    await wait_for(owner, clients, 0.2 * sim.entropy.random())
    world.history.contested = True
    host = sim.hosts.get("rival") or sim.host("rival", disk=owner.host.disk)
    for name, transient in world.known.items():
        if transient:  # the new owner removes it when it starts
            world.history.start("rival", DeleteSegmentCall(name))
    try:
        rival = await world.open_owner(host)
    except (HostDownError, HeadraceError, OSError) as error:
        if isinstance(error, CorruptionError):
            raise
        host.kill()
        await world.end(owner, "kill")
        return
    rival_clients = start_clients(world, rival, f"{life}r")
    await wait_for(owner, clients, sim.entropy.random())
    await wait_for(rival, rival_clients, sim.entropy.random())
    await world.end(owner, ("kill", "restart")[sim.entropy.randbelow(2)])
    await _see_off(owner, clients, fenced=True)
    await world.end(rival, "kill")
    await _see_off(rival, rival_clients)


async def _finish(world: ContainerWorld) -> None:
    """Nothing disturbs any more: recover, store, recover from storage, and once more."""
    world.foundations.end_troubles()
    world.profile = with_copies(world.profile, NO_COPIES)  # they would hold garbage
    host = world.sim.host("store")
    host.disk.heal()
    host.disk.slowness = 1.0
    owner = await world.start_owner(host)
    clients = start_clients(world, owner, "last")
    await wait_for(owner, clients, _STALL_TIMEOUT_S, must=True)
    await _see_off(owner, clients)
    world.note_attributes(owner)
    host.kill()
    owner = await world.start_owner(host)
    await world.run_in(owner, world.check_stored(owner))
    await world.stop(owner)
    for _ in range(2):
        owner = await world.start_owner(host)
        host.kill()
    if world.foundations.far is not None:
        await _check_far(world, world.foundations.far)
        await _lose_log(world, world.foundations.far)


async def _check_far(world: ContainerWorld, far: FaultyObjectStore) -> None:
    """Let a last owner tidy up; then rows, log and objects fit each other, and nothing is left over."""
    await far.settle()
    far.faults = ObjectStoreFaults()
    world.profile = tidying(world.profile)
    host = world.sim.host("store")
    owner = await world.start_owner(host)
    await asyncio.sleep(TIDY_S)
    await world.run_in(owner, world.check_stored(owner))
    segments = {
        name: (await world.run_in(owner, owner.container.resolve(name))).segment_id
        for name in world.history.state.segments
    }
    await world.stop(owner)
    host.kill()
    check_offline(host.disk, f"/data/wal/{LOG}", far.objects, segments)


async def _lose_log(world: ContainerWorld, far: FaultyObjectStore) -> None:
    """Lose the log some time behind a copy of it: what is made from the copy is what there was then."""
    world.profile = with_copies_by_hand(world.profile)
    host = world.sim.host("store")
    owner = await world.start_owner(host)
    checkpoints = owner.container.tiers.checkpoints
    assert checkpoints is not None
    await world.run_in(owner, checkpoints.write_now())
    copied = world.history.state
    await wait_for(owner, start_clients(world, owner, "lost"), _STALL_TIMEOUT_S, must=True)
    await asyncio.sleep(TIDY_S)
    host.kill()
    host.boot()
    await host.run(rebuild_log(far, "/data", host.runtime))
    world.history.go_back(copied)
    owner = await world.start_owner(host)
    await world.run_in(owner, owner.container.tiers.flush_storage())
    await world.stop(owner)
    host.kill()
    check_offline(host.disk, f"/data/wal/{LOG}", far.objects, None)
