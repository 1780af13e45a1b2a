"""A segment store as its cluster gives and takes containers, in one process: the map is the test's, or a
leader's.
"""

import asyncio
from contextlib import asynccontextmanager

import pytest

from headrace.cluster.facts_node import Facts
from headrace.cluster.facts_store import create_facts, read_facts
from headrace.cluster.placement_service import PlacementService
from headrace.cluster.store_node import StoreNode, encode_store, store_path
from headrace.coordination.memory import MemoryCoordinator
from headrace.data_directory.birth_of_cluster import facts_of_directory, found_cluster
from headrace.data_directory.record import FORMAT
from headrace.errors import (
    ContainerOfflineError,
    DataCorruptionError,
    FencedOutError,
    InvalidArgumentError,
    PreconditionError,
    WalWriteError,
    WrongHostError,
)
from headrace.model.endpoint import Endpoint
from headrace.processes.cluster_containers import ClusterContainers, ClusterGate, OpenedLogs, in_session
from headrace.processes.cluster_store import ClusterStoreServer
from headrace.processes.cluster_store_config import ClusterStoreConfig
from headrace.processes.config import SegmentStoreConfig
from headrace.processes.own_cluster import OwnCluster
from headrace.processes.wired_store import WiredStore
from headrace.runtime.clock import SystemClock
from headrace.runtime.context import system_runtime
from headrace.runtime.entropy import SystemEntropy
from headrace.wal.stores import find_logs

pytestmark = pytest.mark.real_loop
SYSTEM = "00112233445566778899aabbccddeeff"
SEGMENT = "s/t/0.#epoch.0"


class Heard:
    """What the host says beside its answers."""

    def __init__(self):
        self.events = asyncio.Queue()

    def on_failed(self, container_id):
        self.events.put_nowait(("failed", container_id))

    def on_online(self, container_id, container_epoch):
        self.events.put_nowait(("online", container_id, container_epoch))

    def on_fenced(self, container_id):
        self.events.put_nowait(("fenced", container_id))


class AllIn:
    """A lease gate that has admitted everything."""

    def serves(self, _):
        return True


def facts_at(directory, containers=1, **other):
    return Facts(SYSTEM, containers, 16, f"file://{directory}", f"file://{directory}/chunks", FORMAT, **other)


async def born(directory, containers=1):
    coordinator = MemoryCoordinator()
    facts = facts_at(directory, containers)
    await in_session(coordinator, lambda session: create_facts(session, facts))
    return coordinator, facts


@asynccontextmanager
async def hosting(directory, coordinator, facts):
    runtime = system_runtime()
    session = await coordinator.open()
    logs = find_logs(str(directory), runtime.filesystem)
    opened = OpenedLogs(lambda: session, facts, logs, runtime.threads)
    containers = ClusterContainers(opened, ClusterGate(AllIn()))
    containers.events = Heard()
    config = SegmentStoreConfig(data_dir=str(directory))
    plane = WiredStore(config, runtime, facts.containers, cluster=containers)
    await plane.start()
    try:
        yield containers, plane
    finally:
        await plane.stop()
        await session.close()


@pytest.mark.slow
async def test_a_container_is_given_confirmed_and_taken(tmp_path):
    coordinator, facts = await born(tmp_path)
    async with hosting(tmp_path, coordinator, facts) as (host, plane):
        with pytest.raises(ContainerOfflineError):
            await host.confirm(0)
        first = await host.give(0)
        await host.confirm(0)
        await plane.store.create_segment(SEGMENT)
        await host.take(0)
        await host.take(0)
        with pytest.raises(ContainerOfflineError):
            await plane.store.segment_info(SEGMENT)
        assert await host.give(0) > first
        assert (await plane.store.segment_info(SEGMENT)).length == 0
    assert (await in_session(coordinator, read_facts)).opened == {0}


async def test_who_was_fenced_learns_it_when_asked_and_when_it_writes(tmp_path):
    coordinator, facts = await born(tmp_path)
    async with hosting(tmp_path, coordinator, facts) as (host, plane):
        await host.give(0)
        async with hosting(tmp_path, coordinator, facts) as (successor, _):
            await successor.give(0)
            with pytest.raises(FencedOutError):
                await host.confirm(0)
            with pytest.raises(WalWriteError):
                await plane.store.create_segment(SEGMENT)
            async with asyncio.timeout(60):
                assert await host.events.events.get() == ("fenced", 0)
            await successor.confirm(0)


@pytest.mark.slow
async def test_a_fenced_container_is_an_ordinary_day_in_a_cluster_and_none_of_a_store_alone(tmp_path, caplog):
    coordinator, facts = await born(tmp_path / "cluster")
    async with (
        hosting(tmp_path / "cluster", coordinator, facts) as (host, plane),
        hosting(tmp_path / "cluster", coordinator, facts) as (successor, _),
    ):
        await host.give(0)
        await successor.give(0)
        with pytest.raises(WalWriteError):
            await plane.store.create_segment(SEGMENT)
        async with asyncio.timeout(60):
            await host.events.events.get()
    assert [each.getMessage() for each in caplog.records if each.levelname == "CRITICAL"] == []
    assert any("container 0 has another owner" in each.getMessage() for each in caplog.records)

    taken_over = asyncio.Event()
    config = SegmentStoreConfig(data_dir=str(tmp_path / "alone"))
    own = OwnCluster(1, system_runtime(), lambda _: taken_over.set())
    alone = WiredStore(config, system_runtime(), 1, cluster=own)
    other = WiredStore(config, system_runtime(), 1)
    await alone.start()
    await other.start()
    try:
        with pytest.raises(WalWriteError):
            await alone.store.create_segment(SEGMENT)
        async with asyncio.timeout(60):
            await taken_over.wait()
    finally:
        await alone.stop()
        await other.stop()
    (critical,) = [each.getMessage() for each in caplog.records if each.levelname == "CRITICAL"]
    assert critical.startswith("container 0 stays offline")


async def test_a_damaged_container_that_is_given_again_starts_again(tmp_path):
    """Whoever gives it decides how often: the log may be mended, or its file system mounted again."""
    coordinator, facts = await born(tmp_path)
    async with hosting(tmp_path, coordinator, facts) as (host, plane):
        epoch = await host.give(0)
        plane.registry.running_one(0).tiers.log.fail(DataCorruptionError("damaged"))
        async with asyncio.timeout(60):
            while await host.events.events.get() != ("fenced", 0):
                pass
        with pytest.raises(ContainerOfflineError):
            await host.confirm(0)
        assert await host.give(0) == epoch + 1
        await host.confirm(0)


async def test_a_log_that_was_opened_and_is_missing_is_not_made_anew(tmp_path):
    coordinator, facts = await born(tmp_path)
    async with hosting(tmp_path, coordinator, facts) as (host, _):
        await host.give(0)
    (tmp_path / "wal").rename(tmp_path / "elsewhere")
    async with hosting(tmp_path, coordinator, facts) as (host, _):
        with pytest.raises(DataCorruptionError, match="has opened it before"):
            await host.give(0)
    assert not (tmp_path / "wal" / "container-0").exists()


def server_at(coordinator, **settings):
    config = ClusterStoreConfig(segmentstore_port=0, rest_port=0, **settings)
    return ClusterStoreServer(config, coordinator, "memory")


class Counting:
    """A coordinator that counts its sessions."""

    def __init__(self, inner):
        self.inner, self.opened = inner, 0

    async def open(self):
        self.opened += 1
        return await self.inner.open()


@pytest.mark.slow
async def test_two_stores_share_containers_and_one_that_leaves_is_relieved(tmp_path):
    shared, _ = await born(tmp_path, 4)
    coordinator = Counting(shared)
    leader = PlacementService(shared, 4, SystemClock(), SystemEntropy())
    leader.start()
    servers = [server_at(coordinator) for _ in range(2)]
    try:
        addresses = await asyncio.gather(*(server.start() for server in servers))

        def owners():
            stores = leader.placement.stores
            return {
                str(stores[x.store].endpoint) for x in leader.placement.claims.values() if x.store in stores
            }

        async with asyncio.timeout(120):
            while len(leader.placement.claims) < 4:  # noqa: ASYNC110 - both wait for all
                await asyncio.sleep(0.01)
            assert owners() == {each.segmentstore for each in addresses}
            assert coordinator.opened == 2 * 2, "each has asked for the facts, and is a member"
            await servers[0].stop()
            assert owners() == {addresses[1].segmentstore}
    finally:
        for server in servers:
            await server.stop()
        await leader.stop()


@pytest.mark.slow
async def test_a_coordinator_that_lost_everything_is_filled_again_from_the_directory(tmp_path):
    runtime = system_runtime()
    first, facts = await born(tmp_path, 2)

    async def serve_all(coordinator):
        """Run a store until it serves everything, and return what the facts say then."""
        leader = PlacementService(coordinator, 2, SystemClock(), SystemEntropy())
        leader.start()
        server = server_at(coordinator)
        try:
            await server.start()
            async with asyncio.timeout(60):
                while len(leader.placement.claims) < 2:  # noqa: ASYNC110 - both are waited for
                    await asyncio.sleep(0.01)
            return await in_session(coordinator, read_facts)
        finally:
            await server.stop()
            await leader.stop()

    before = await serve_all(first)
    assert before.opened == {0, 1}
    lost = MemoryCoordinator()
    with pytest.raises(PreconditionError, match="headrace cluster init"):
        await server_at(lost).start()
    with facts_of_directory(str(tmp_path), runtime) as found:
        files = runtime.filesystem
        await in_session(lost, lambda session: found_cluster(session, found, str(tmp_path), "memory", files))
    after = await serve_all(lost)
    assert (after.system, after.containers, after.opened) == (facts.system, 2, {0, 1})


async def test_memory_is_advised_for_what_a_store_can_get(tmp_path, caplog):
    """64 containers, under load at the same time, of which a store beside seven others may get 16."""
    advised = []
    for others in (0, 7):
        coordinator, _ = await born(tmp_path / str(others), 64)
        session = await coordinator.open()
        for number in range(others):
            await session.create(store_path(f"{number}"), encode_store(StoreNode(Endpoint("h", 1))))
        server = server_at(coordinator)
        caplog.clear()
        await server.start()
        await server.stop()
        advised += [each.getMessage() for each in caplog.records if "cache_bytes" in each.getMessage()]
    assert [each.partition(": set ")[0].partition("little for ")[2] for each in advised] == [
        "64 containers under load at the same time",
        "16 containers under load at the same time",
    ]


async def test_settings_that_contradict_the_facts_are_refused(tmp_path):
    coordinator, _ = await born(tmp_path, 4)
    with pytest.raises(InvalidArgumentError, match="containers = 8, and the cluster was made with 4"):
        await server_at(coordinator, containers=8).start()
    with pytest.raises(InvalidArgumentError, match="leave out in_memory"):
        server_at(coordinator, in_memory=True)
    with pytest.raises(PreconditionError, match="headrace cluster init"):
        await server_at(MemoryCoordinator()).start()


async def test_a_gate_that_was_never_opened_names_nobody():
    class Shut:
        def serves(self, _):
            return False

    cluster = OwnCluster(1, system_runtime())
    cluster.gate = ClusterGate(Shut())
    plane = WiredStore(SegmentStoreConfig(in_memory=True), system_runtime(), 1, cluster=cluster)
    await plane.start()
    try:
        with pytest.raises(WrongHostError) as refused:
            await plane.store.segment_info(SEGMENT)
        assert refused.value.owner == ""
    finally:
        await plane.stop()
