import pytest

from headrace.coordination.contract import Coordinator, Session
from headrace.coordination.memory import MemoryCoordinator
from headrace.runtime.entropy import SeededEntropy
from headrace.testing.conformance.coordination import CoordinatorContract
from headrace.testing.coordination_faults import CoordinationFaults, FaultyCoordinator
from tests.zookeeper_cluster import Cluster


class TestMemoryCoordinator(CoordinatorContract):
    async def make(self) -> Coordinator:
        return MemoryCoordinator()

    async def expire(self, session: Session) -> None:
        session.expire()


class TestFaultyCoordinator(CoordinatorContract):
    """Slow, with late watches: still what the contract says."""

    @pytest.fixture(autouse=True)
    async def _sessions_are_closed(self):
        self.coordinators = []
        yield
        for coordinator in self.coordinators:
            for session in [*coordinator.sessions]:
                await session.close()

    async def make(self) -> Coordinator:
        faults = CoordinationFaults(delay_s_max=0.002, watch_delay_s_max=0.01)
        self.coordinators.append(FaultyCoordinator(SeededEntropy(1), faults))
        return self.coordinators[-1]

    async def expire(self, session: Session) -> None:
        session.expire()


@pytest.mark.cluster
class TestZooKeeperCoordinator(CoordinatorContract):
    """A real server, over a network that may be slow or breaks connections."""

    delay_s = 0.0

    @pytest.fixture(autouse=True)
    async def _cluster(self, zookeeper):
        self.server = zookeeper
        self.clusters = []
        self.proxies = {}
        yield
        for cluster in self.clusters:
            await cluster.__aexit__()

    async def make(self) -> Coordinator:
        cluster = Cluster(self.server)
        self.clusters.append(cluster)
        self.proxy = await cluster.proxy()
        self.proxy.delay_s = self.delay_s
        return cluster.coordinator(self.proxy.port)

    async def expire(self, session: Session) -> None:
        await self.proxy.expire(session.session_id)


class TestSlowZooKeeper(TestZooKeeperCoordinator):
    delay_s = 0.005
