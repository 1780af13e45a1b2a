"""Clients of many segments on a store with few active ones, while its host breaks again and again."""

import asyncio
import dataclasses
import logging

import pytest

from headrace.limits import KIB, MIB
from headrace.processes.config import StandaloneConfig
from headrace.processes.wired_store import WiredStore
from headrace.runtime.entropy import SeededEntropy
from headrace.segmentstore.container.config import EvictionConfig
from headrace.testing.faults.host_faults import HostFaults, keep_running
from headrace.testing.history import History
from headrace.testing.linearizability import check_segments
from headrace.testing.network_config import NetworkConfig
from headrace.testing.simulated_settings import simulated
from headrace.testing.simulation import simulate
from headrace.wal.config import WalConfig
from tests.effort import seeds, without_long
from tests.simulation.scenarios.writers import CONTAINER, PORT
from tests.simulation.workloads.segment_clients import SegmentClient

SEGMENTS = [f"scope/stream/{number}.#epoch.0" for number in range(9)]
#: The catalogue and five segments of nine; one that is idle for a fraction of a second may be evicted.
EVICTION = EvictionConfig(
    active_segments_max=6, eviction_interval_s=0.3, eviction_batch=4, eviction_cut_s=5.0
)


def program(seed, planes):
    """A store with one container; the seed decides the settings of its log."""
    container = dataclasses.replace(CONTAINER, eviction=EVICTION)
    config = StandaloneConfig(data_dir="/data", cache_bytes=4 * MIB, container=container)
    drawn = simulated(WalConfig, SeededEntropy(seed))

    async def serve(runtime):
        runtime.filesystem.mkdir("/data/wal")
        for directory in ("/data", "/"):
            runtime.filesystem.fsync_directory(directory)
        plane = WiredStore(config, runtime, 1)
        plane._wal_config = dataclasses.replace(drawn, frame_bytes_max=4 * KIB, segment_file_bytes=64 * KIB)
        await plane.start()
        planes.append(plane)
        await plane.listen("0.0.0.0", PORT)

    return serve


async def wander(clients, visits, entropy):
    """Go from segment to segment: write a little, read a little, leave."""
    for _ in range(visits):
        client = clients[entropy.randbelow(len(clients))]
        for _ in range(1 + entropy.randbelow(3)):
            await client.append(entropy.token(1 + entropy.randbelow(30) ** 2))
        facts = await client.info()
        if facts is not None and facts.length > facts.start_offset:
            await client.read(facts.start_offset + entropy.randbelow(facts.length - facts.start_offset))
            if entropy.randbelow(8) == 0:
                await client.truncate(facts.start_offset + entropy.randbelow(200))
        client.close()  # its segment is idle now
        await asyncio.sleep(entropy.random())


async def storm(sim, *, wanderers=3, visits=8, faults=True):
    store = sim.host("store")
    addresses, history, planes = [("store", PORT)], History(sim.loop.machine_time), []
    evicted = activated = 0
    async with asyncio.TaskGroup() as world:
        watchdog = world.create_task(keep_running(sim, store, program(sim.seed, planes)))
        for number in range(wanderers):
            name, entropy = f"wanderer-{number}", sim.entropy.fork(f"wanderer-{number}")
            clients = [SegmentClient(f"{name}-{s}", s, addresses, history, entropy) for s in SEGMENTS]
            if not number:
                for client in clients:
                    await sim.host(name).run(client.create())
                    client.close()
                work = []
            work.append(sim.host(name).run(wander(clients, visits, entropy)))
        trouble = world.create_task(HostFaults(sim, store, every_s=1.5).run() if faults else asyncio.sleep(0))
        await asyncio.gather(*work)
        trouble.cancel()
        await asyncio.wait([trouble])
        sim.network.heal()
        store.disk.heal()
        store.disk.slowness = 1.0
        for segment in SEGMENTS:
            judge = SegmentClient("judge", segment, addresses, history, sim.entropy.fork("judge"))
            while not await judge.seal():  # noqa: ASYNC110 - nothing could set an event
                await asyncio.sleep(0.5)
            await judge.read_all()
            judge.close()
        for plane in planes:
            for container in plane.registry.running():
                statistics = container.segment_statistics()
                evicted += statistics.evicted
                activated += statistics.activations
                container.check()
        check_segments(history)
        watchdog.cancel()
    return evicted, activated


def run(seed, **options):
    return simulate(
        seed, lambda sim: storm(sim, **options), network=NetworkConfig(drop_chance=0.002), limit_s=2_000.0
    ).value


@pytest.fixture(autouse=True)
def _errors_only():
    logging.getLogger("headrace").setLevel(logging.CRITICAL)
    yield
    logging.getLogger("headrace").setLevel(logging.NOTSET)


def test_segments_come_and_go_while_clients_wander_among_them():
    evicted, activated = run(0, faults=False)
    assert evicted > 10
    assert activated > 10


FOUND = {26: "parts of a checkpoint larger than a tiny log"}


@pytest.mark.parametrize("seed", [*seeds(7, 1), *without_long(FOUND, FOUND)])
def test_what_clients_are_told_fits_together_although_segments_leave_memory_and_the_host_breaks(seed):
    run(seed)
