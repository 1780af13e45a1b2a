"""Two processes serve the same containers from the same disk, each believing it is the owner.

Fencing decides: whatever either acknowledges is in one history. Reads are left out: an owner that does not
know yet that it was fenced answers from what it knew, which is old but was true.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, Final

from headrace.testing.faults.host_faults import HostFault, HostFaults, keep_running
from headrace.testing.history import History
from headrace.testing.simulation import Simulation
from tests.simulation.scenarios.writers import (
    PORT,
    SEGMENTS,
    client_name,
    data_plane_program,
    judge,
    write,
)
from tests.simulation.workloads.segment_clients import SegmentClient

KINDS: Final = (HostFault.KILL, HostFault.DROP_CONNECTIONS, HostFault.CLOG, HostFault.SLOW_DISK)


async def rivalry(
    sim: Simulation, *, writers: int = 3, appends: int = 15, kinds: tuple[HostFault, ...] = KINDS
) -> History:
    """Let writers go from one owner to the other; then leave one alone, and judge."""
    one = sim.host("one")
    other = sim.host("other", disk=one.disk)
    addresses = [("one", PORT), ("other", PORT)]
    history = History(sim.loop.machine_time)
    program = data_plane_program(sim.seed)
    async with asyncio.TaskGroup() as world:
        watchdog = world.create_task(keep_running(sim, one, program))
        rival = world.create_task(keep_running(sim, other, program))
        work: list[Coroutine[Any, Any, None]] = []
        for segment in SEGMENTS:
            for number in range(1, writers + 1):
                name = client_name(segment, number)
                entropy = sim.entropy.fork(name)
                client = SegmentClient(name, segment, addresses, history, entropy)
                await sim.host(name).run(client.create())
                work.append(sim.host(name).run(write(client, appends, entropy)))
        troubles = [
            world.create_task(HostFaults(sim, host, every_s=1.5, kinds=kinds).run()) for host in (one, other)
        ]
        await asyncio.gather(*work)
        for task in (*troubles, rival):
            task.cancel()
        await asyncio.wait((*troubles, rival))
        other.kill()
        one.kill()  # it may be the one that was fenced
        sim.network.heal()
        one.disk.slowness = 1.0
        await judge(sim, addresses[:1], history)
        watchdog.cancel()
    return history
