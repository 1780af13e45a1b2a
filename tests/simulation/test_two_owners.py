"""Two processes serve the same containers from the same disk, each believing it is the owner.

Fencing decides: whatever either acknowledges is in one history. (Reads are left out: an owner that does not know
yet that it was fenced answers from what it knew, which is old but was true.)
"""

import asyncio

import pytest

from headrace.testing.faults.host_faults import HostFault, HostFaults, keep_running
from headrace.testing.history import History, Outcome
from headrace.testing.linearizability import check_segments
from headrace.testing.network_config import NetworkConfig
from headrace.testing.segment_calls import AppendCall
from headrace.testing.simulation import simulate
from headrace.testing.workloads.segment_clients import SegmentClient
from tests.simulation.data_plane_storm import PORT, SEGMENTS, program, write

WRITERS = 3
APPENDS = 15
KINDS = (HostFault.KILL, HostFault.DROP_CONNECTIONS, HostFault.CLOG, HostFault.SLOW_DISK)


async def rivalry(sim):
    """Let writers go from one owner to the other; then leave one alone and look."""
    one = sim.host("one")
    other = sim.host("other", disk=one.disk)
    addresses = [("one", PORT), ("other", PORT)]
    history = History(sim.loop.time)
    async with asyncio.TaskGroup() as world:
        watchdogs = [world.create_task(keep_running(sim, host, program(sim.seed))) for host in (one, other)]
        work = []
        for segment in SEGMENTS:
            for number in range(WRITERS):
                name = f"client-{number}-{segment[13]}"
                entropy = sim.entropy.fork(name)
                client = SegmentClient(name, segment, addresses, history, entropy)
                await sim.host(name).run(client.create())
                work.append(sim.host(name).run(write(client, APPENDS, entropy)))
        faults = [
            world.create_task(HostFaults(sim, host, every_s=1.5, kinds=KINDS).run()) for host in (one, other)
        ]
        await asyncio.gather(*work)
        for task in (*faults, watchdogs[1]):
            task.cancel()
        await asyncio.wait((*faults, watchdogs[1]))
        other.kill()
        one.kill()  # it may be the one that was fenced
        sim.network.heal()
        one.disk.slowness = 1.0
        for segment in SEGMENTS:
            judge = SegmentClient("judge", segment, addresses[:1], history, sim.entropy.fork("judge"))
            while not await judge.seal():  # noqa: ASYNC110 - there is nobody to tell it
                await asyncio.sleep(0.5)
            await judge.read_all()
            judge.close()
        watchdogs[0].cancel()
    check_segments(history)
    return history


@pytest.mark.parametrize("seed", range(5))
def test_two_owners_never_acknowledge_against_each_other(seed):
    result = simulate(seed, rivalry, network=NetworkConfig(drop_chance=0.002), limit_s=300)
    appended = [
        operation
        for operation in result.value.operations
        if isinstance(operation.call, AppendCall) and operation.outcome is Outcome.OK
    ]
    assert len(appended) == len(SEGMENTS) * WRITERS * APPENDS
