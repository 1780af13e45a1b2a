"""The whole data plane - listener, containers, log, chunks - on a host that breaks, used by clients."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable, Coroutine
from typing import Any, Final

from headrace.limits import KIB, MIB
from headrace.processes.config import StandaloneConfig
from headrace.processes.wired_store import WiredStore
from headrace.runtime.context import Runtime
from headrace.runtime.entropy import SeededEntropy
from headrace.segmentstore.admission.throttle.config import ThrottleConfig
from headrace.segmentstore.container.config import ContainerConfig
from headrace.segmentstore.storagewriter.config import StorageWriterConfig
from headrace.storage.chunks.config import SegmentStorageConfig
from headrace.testing.distant_wal import make_distant
from headrace.testing.faults.host_faults import HostFault, HostFaults, keep_running
from headrace.testing.history import History
from headrace.testing.linearizability import check_segments
from headrace.testing.simulated_settings import simulated
from headrace.testing.simulation import Simulation
from headrace.wal.config import WalConfig
from headrace.wal.contract import Wal
from headrace.wal.frame_memory import FrameMemory
from headrace.wal.stores import make_logs
from tests.simulation.workloads.segment_clients import SegmentClient

PORT: Final = 12345
CONTAINERS: Final = 2
SEGMENTS: Final = ("scope/stream/0.#epoch.0", "scope/stream/1.#epoch.0")

_LOG_WAY_S_MAX: Final = 0.02

#: Everything small: a few hundred appends roll chunks, checkpoint, truncate, recycle, and are throttled.
CONTAINER: Final = ContainerConfig(
    memory_log_max=100,
    unstored_bytes_max=32 * KIB,
    throttle=ThrottleConfig(
        burst_bytes=2 * KIB,
        delay_half_s=0.1,
        delay_max_s=3.0,
        backlog_share=0.25,
        cache_share=0.01,
        memory_log_share=0.01,
        wal_queue_s=0.01,
    ),
    checkpoint_frames=40,
    checkpoint_bytes=64 * KIB,
    storage=SegmentStorageConfig(rollover_bytes=8 * KIB, block_bytes=1 * KIB, garbage_delay_s=1.0),
    storage_writer=StorageWriterConfig(
        flush_bytes=2 * KIB, flush_age_s=0.5, write_bytes_max=8 * KIB, garbage_interval_s=1.0
    ),
)


class SmallStore(WiredStore):
    """The data plane with small logs, which are asked as over a network."""

    def __init__(
        self, config: StandaloneConfig, runtime: Runtime, wal_config: WalConfig, entropy: SeededEntropy
    ) -> None:
        super().__init__(config, runtime, CONTAINERS)
        self._logs = make_logs(
            config.data_dir,
            runtime,
            wal_config,
            frames=FrameMemory(wal_config.frame_bytes_max),
            loop_writes=self._loop_writes,
        )
        self._entropy = entropy

    def _make_wal(self, container_id: int) -> Wal:
        return make_distant(super()._make_wal(container_id), self._entropy, _LOG_WAY_S_MAX)


def data_plane_program(seed: int | str) -> Callable[[Runtime], Coroutine[Any, Any, None]]:
    """Return the program of a segment store; the seed decides the settings of its logs."""
    config = StandaloneConfig(data_dir="/data", cache_bytes=4 * MIB, container=CONTAINER)
    drawn = simulated(WalConfig, SeededEntropy(seed))
    wal_config = dataclasses.replace(drawn, frame_bytes_max=4 * KIB, segment_file_bytes=64 * KIB)

    async def serve(runtime: Runtime) -> None:
        runtime.filesystem.mkdir("/data/wal")
        for directory in ("/data", "/"):
            runtime.filesystem.fsync_directory(directory)
        plane = SmallStore(config, runtime, wal_config, SeededEntropy(f"{seed}/distant-log"))
        await plane.start()
        await plane.listen("0.0.0.0", PORT)

    return serve


async def write(client: SegmentClient, appends: int, entropy: SeededEntropy) -> None:
    """Append so many times, a byte to 1.5 KiB each, with pauses."""
    for _ in range(appends):
        size = 1 + entropy.randbelow(40) ** 2
        if not await client.append(entropy.token(size)):
            return
        await asyncio.sleep(0.2 * entropy.random())


async def look(client: SegmentClient, entropy: SeededEntropy) -> None:
    """Read at random places, ask for facts, now and then drop the head; until cancelled."""
    while True:
        facts = await client.info()
        if facts is not None and facts.length > facts.start_offset:
            await client.read(facts.start_offset + entropy.randbelow(facts.length - facts.start_offset))
            if entropy.randbelow(20) == 0:
                await client.truncate(facts.start_offset + entropy.randbelow(300))
        await asyncio.sleep(0.3 * entropy.random())


async def judge(sim: Simulation, addresses: list[tuple[str, int]], history: History) -> None:
    """Seal and read everything; then say whether all answers fit together.

    Raises:
        NotLinearizableError: it does not.
    """
    for segment in SEGMENTS:
        client = SegmentClient("judge", segment, addresses, history, sim.entropy.fork("judge"))
        while not await client.seal():  # noqa: ASYNC110 - nothing could set an event
            await asyncio.sleep(0.5)
        await client.read_all()
        client.close()
    check_segments(history)


def client_name(segment: str, number: int) -> str:
    """Return the name of a client and its host."""
    return f"client-{number}-{SEGMENTS.index(segment)}"


async def storm(
    sim: Simulation,
    *,
    writers: int = 3,
    appends: int = 25,
    kinds: tuple[HostFault, ...] = tuple(HostFault),
    every_s: float = 0.5,
) -> tuple[History, dict[HostFault, int]]:
    """Let clients work while the store breaks again and again; then look at what is left, and judge."""
    store = sim.host("store")
    addresses = [("store", PORT)]
    faults = HostFaults(sim, store, every_s=every_s, kinds=kinds)
    history = History(sim.loop.machine_time)
    async with asyncio.TaskGroup() as world:
        watchdog = world.create_task(keep_running(sim, store, data_plane_program(sim.seed)))
        trouble: list[Coroutine[Any, Any, None]] = [faults.run()]
        work: list[Coroutine[Any, Any, None]] = []
        for segment in SEGMENTS:
            for number in range(writers + 1):
                name = client_name(segment, number)
                entropy = sim.entropy.fork(name)
                client = SegmentClient(name, segment, addresses, history, entropy)
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
        await judge(sim, addresses, history)
        watchdog.cancel()
    return history, faults.injected
