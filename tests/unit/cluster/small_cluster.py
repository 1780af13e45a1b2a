"""Stores whose containers start at once, and one controller, over one coordinator."""

import asyncio

from headrace.cluster.lease_gate import LeaseGate
from headrace.cluster.placement_service import PlacementService
from headrace.cluster.store_member import StoreMember
from headrace.cluster.store_node import StoreNode
from headrace.errors import FencedOutError, StorageFullError
from headrace.model.endpoint import Endpoint
from headrace.runtime.entropy import SeededEntropy
from headrace.testing.coordination_faults import CoordinationFaults, FaultyCoordinator
from headrace.testing.simulation import simulate


class Host:
    """Containers that are numbers; their logs are the epochs of the cluster."""

    def __init__(self, cluster, name):
        self.cluster = cluster
        self.name = name
        self.running = {}
        self.failing = set()
        self.takes_s = 0.0

    async def give(self, container_id):
        self.cluster.events.append((self.name, "give", container_id))
        await asyncio.sleep(0.01)
        if container_id in self.failing:
            raise StorageFullError("injected")
        self.cluster.epochs[container_id] += 1
        self.running[container_id] = self.cluster.epochs[container_id]
        return self.running[container_id]

    async def take(self, container_id):
        self.cluster.events.append((self.name, "take", container_id))
        self.running.pop(container_id, None)
        await asyncio.sleep(self.takes_s)

    async def confirm(self, container_id):
        if self.running.get(container_id) != self.cluster.epochs[container_id]:
            raise FencedOutError("injected")


class Cluster:
    def __init__(self, sim, containers):
        self.sim = sim
        self.containers = containers
        self.coordinator = FaultyCoordinator(sim.entropy, CoordinationFaults())
        self.epochs = [0] * containers
        self.events = []
        self.stores = {}
        self.hosts = {}
        self.gates = {}
        self.service = PlacementService(self.coordinator, containers, sim.clock, SeededEntropy("service"))

    async def join(self, *names, settle_s=2.0):
        for name in names:
            self.hosts[name], self.gates[name] = Host(self, name), LeaseGate()
            node = StoreNode(Endpoint(name, 1))
            self.stores[name] = StoreMember(
                self.coordinator,
                self.hosts[name],
                node,
                self.containers,
                self.gates[name],
                SeededEntropy(f"{self.sim.seed}-{name}"),
            )
            self.stores[name].start()
        await asyncio.sleep(settle_s)

    def session_of(self, name):
        return next(each for each in self.coordinator.sessions if each.lease is self.gates[name]._lease)

    def served(self):
        """The stores that answer for each container."""
        return [
            [name for name, gate in self.gates.items() if gate.serves(container_id)]
            for container_id in range(self.containers)
        ]

    def located(self):
        places = [self.service.placement.locate(container_id) for container_id in range(self.containers)]
        return [None if place is None else place.host for place in places]


def run(scenario, *stores, containers=4):
    async def main(sim):
        cluster = Cluster(sim, containers)
        cluster.service.start()
        await cluster.join(*stores)
        await scenario(cluster)
        await cluster.service.stop()
        for member in cluster.stores.values():
            await member.stop(0.0)
        for session in [*cluster.coordinator.sessions]:
            session.expire()

    return simulate(1, main)
