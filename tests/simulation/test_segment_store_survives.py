"""The whole data plane - listener, container, log, chunks - under kills, power losses and a bad network.

Whatever happens, what clients were told must be what a correct segment would have told them.
"""

import asyncio
import dataclasses

import pytest

from headrace.limits import KIB, MIB
from headrace.runtime.entropy import SeededEntropy
from headrace.runtime.settings import simulated
from headrace.segmentstore.container.config import ContainerConfig
from headrace.segmentstore.storagewriter.config import StorageWriterConfig
from headrace.standalone.config import StandaloneConfig
from headrace.standalone.data_plane import DataPlane
from headrace.storage.chunks.config import SegmentStorageConfig
from headrace.testing.disk import DiskConfig
from headrace.testing.disk_files import SimulatedFile, Survival
from headrace.testing.failures import TimeLimitError
from headrace.testing.faults.host_faults import HostFault, HostFaults, keep_running
from headrace.testing.history import History, Outcome
from headrace.testing.linearizability import NotLinearizableError, check_segments
from headrace.testing.loop import TIME_START_S
from headrace.testing.network_config import NetworkConfig
from headrace.testing.segment_calls import AppendCall
from headrace.testing.simulation import simulate
from headrace.testing.workloads.segment_clients import SegmentClient
from headrace.wal.config import WalConfig

PORT = 12345
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
        super().__init__(config, runtime)
        self._wal_config = wal_config


def program(seed):
    config = StandaloneConfig(data_dir="/data", containers=2, cache_bytes=4 * MIB, container=CONTAINER)
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
    store = sim.host("store")
    faults = HostFaults(sim, store, every_s=every_s, kinds=kinds)
    background = [
        asyncio.ensure_future(keep_running(sim, store, program(sim.seed))),
    ]
    history = History(sim.loop.time)
    clients = {}
    for segment in SEGMENTS:
        for number in range(writers + 1):
            name = f"client-{number}-{segment[13]}"
            entropy = sim.entropy.fork(name)
            clients[name] = SegmentClient(name, segment, ("store", PORT), history, entropy), entropy
    for name, (client, _) in clients.items():
        await sim.host(name).run(client.create())
    background.append(asyncio.ensure_future(faults.run()))
    async with asyncio.TaskGroup() as group:
        for name, (client, entropy) in clients.items():
            if name.startswith("client-0"):
                background.append(asyncio.ensure_future(sim.host(name).run(look(client, entropy))))
            else:
                group.create_task(sim.host(name).run(write(client, appends, entropy)))
    for task in background[1:]:
        task.cancel()
    await asyncio.wait(background[1:])
    sim.network.heal()
    store.disk.slowness = 1.0
    for segment in SEGMENTS:
        judge = SegmentClient("judge", segment, ("store", PORT), history, sim.entropy.fork("judge"))
        while not await judge.seal():  # noqa: ASYNC110 - there is nobody to tell it
            await asyncio.sleep(0.5)
        await judge.read_all()
        judge.close()
    background[0].cancel()
    check_segments(history)
    return history, faults.injected


@pytest.mark.parametrize("seed", range(5))
def test_clients_are_told_what_a_correct_segment_would_tell_them(seed):
    history, injected = simulate(seed, storm, network=NetworkConfig(drop_chance=0.002), limit_s=20_000).value
    appended = [o for o in history.operations if isinstance(o.call, AppendCall) and o.outcome is Outcome.OK]
    assert len(appended) == 2 * 3 * 25
    assert sum(injected.values()) > 3


@pytest.mark.parametrize("seed", range(3))
def test_a_log_that_does_not_sync_is_convicted(seed, monkeypatch):
    """The test above can fail: one second after the start, this disk begins only to say that it wrote.

    Then clients see that something is missing, or the store sees it first and refuses to serve.
    """
    honest = SimulatedFile.write_durably

    def lie(file, offset, data):
        lies = asyncio.get_running_loop().time() > TIME_START_S + 1
        (file.write if lies else honest.__get__(file))(offset, data)

    async def power_losses(sim):
        return await storm(sim, kinds=(HostFault.POWER_LOSS,))

    forgetful = DiskConfig(survival=Survival.NONE)
    simulate(seed, power_losses, limit_s=60, disk=forgetful)
    monkeypatch.setattr(SimulatedFile, "write_durably", lie)
    with pytest.raises((NotLinearizableError, TimeLimitError)):
        simulate(seed, power_losses, limit_s=60, disk=forgetful)
