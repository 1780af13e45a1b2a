"""The whole data plane - listener, containers, log, chunks - on a host that breaks in every way.

Run as a program with a seed it prints its trace, each step of each task included.
"""

import asyncio
import dataclasses
import sys

from headrace.limits import KIB, MIB
from headrace.runtime.entropy import SeededEntropy
from headrace.runtime.settings import simulated
from headrace.segmentstore.container.config import ContainerConfig
from headrace.segmentstore.storagewriter.config import StorageWriterConfig
from headrace.standalone.config import StandaloneConfig
from headrace.standalone.data_plane import DataPlane
from headrace.storage.chunks.config import SegmentStorageConfig
from headrace.testing.faults.host_faults import HostFault, HostFaults, keep_running
from headrace.testing.history import History
from headrace.testing.linearizability import check_segments
from headrace.testing.network_config import NetworkConfig
from headrace.testing.simulation import simulate
from headrace.testing.workloads.segment_clients import SegmentClient
from headrace.wal.config import WalConfig

PORT = 12345
CONTAINERS = 2
SEGMENTS = ["scope/stream/0.#epoch.0", "scope/stream/1.#epoch.0"]

CONTAINER = ContainerConfig(
    checkpoint_frames=40,
    checkpoint_bytes=64 * KIB,
    storage=SegmentStorageConfig(rollover_bytes=8 * KIB, block_bytes=1 * KIB, garbage_delay_s=1.0),
    storage_writer=StorageWriterConfig(
        flush_bytes=2 * KIB, flush_age_s=0.5, write_bytes_max=8 * KIB, garbage_interval_s=1.0
    ),
)


class Plane(DataPlane):
    """The data plane with small logs."""

    def __init__(self, config, runtime, wal_config):
        super().__init__(config, runtime, CONTAINERS)
        self._wal_config = wal_config


def program(seed):
    config = StandaloneConfig(data_dir="/data", cache_bytes=4 * MIB, container=CONTAINER)
    wal = dataclasses.replace(
        simulated(WalConfig, SeededEntropy(seed)), frame_bytes_max=4 * KIB, segment_file_bytes=64 * KIB
    )

    async def serve(runtime):
        runtime.filesystem.mkdir("/data/wal")
        for directory in ("/data", "/"):
            runtime.filesystem.fsync_directory(directory)
        plane = Plane(config, runtime, wal)
        await plane.start()
        await plane.listen("0.0.0.0", PORT)

    return serve


async def write(client, appends, entropy):
    for _ in range(appends):
        size = 1 + entropy.randbelow(40) ** 2
        if not await client.append(entropy.token(size)):
            return
        await asyncio.sleep(0.2 * entropy.random())


async def look(client, entropy):
    """Read at random places, ask for facts, now and then drop the head."""
    while True:
        facts = await client.info()
        if facts is not None and facts.length > facts.start_offset:
            await client.read(facts.start_offset + entropy.randbelow(facts.length - facts.start_offset))
            if entropy.randbelow(20) == 0:
                await client.truncate(facts.start_offset + entropy.randbelow(300))
        await asyncio.sleep(0.3 * entropy.random())


async def storm(sim, *, writers=3, appends=25, kinds=tuple(HostFault), every_s=0.5):
    """Let clients work while the store breaks again and again; then look at what is left, and judge."""
    store = sim.host("store")
    faults = HostFaults(sim, store, every_s=every_s, kinds=kinds)
    history = History(sim.loop.time)
    async with asyncio.TaskGroup() as world:
        watchdog = world.create_task(keep_running(sim, store, program(sim.seed)))
        trouble, work = [faults.run()], []
        for segment in SEGMENTS:
            for number in range(writers + 1):
                name = f"client-{number}-{segment[13]}"
                entropy = sim.entropy.fork(name)
                client = SegmentClient(name, segment, [("store", PORT)], history, entropy)
                await sim.host(name).run(client.create())
                if number:
                    work.append(sim.host(name).run(write(client, appends, entropy)))
                else:
                    trouble.append(sim.host(name).run(look(client, entropy)))
        troubles = [world.create_task(each) for each in trouble]
        await asyncio.gather(*work)
        for task in troubles:
            task.cancel()
        await asyncio.wait(troubles)
        sim.network.heal()
        store.disk.heal()
        store.disk.slowness = 1.0
        for segment in SEGMENTS:
            judge = SegmentClient("judge", segment, [("store", PORT)], history, sim.entropy.fork("judge"))
            while not await judge.seal():  # noqa: ASYNC110 - there is nobody to tell it
                await asyncio.sleep(0.5)
            await judge.read_all()
            judge.close()
        watchdog.cancel()
    check_segments(history)
    return history, faults.injected


if __name__ == "__main__":
    result = simulate(
        int(sys.argv[1]),
        storm,
        network=NetworkConfig(drop_chance=0.002),
        trace_callbacks=True,
        lines_kept=1_000_000,
    )
    print("\n".join(result.trace.lines))
