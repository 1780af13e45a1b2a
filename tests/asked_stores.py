"""Segment stores of a cluster in this process, as a controller elsewhere asks them about themselves."""

from contextlib import asynccontextmanager

from headrace.client.connections.pool import ConnectionPool
from headrace.cluster.claim_node import Claim
from headrace.cluster.store_node import StoreNode
from headrace.cluster.watched_placement import WatchedPlacement
from headrace.controller.segments.remote.stores_away import StoresAway
from headrace.model.endpoint import Endpoint
from headrace.processes.beside_store import BesideStore
from headrace.processes.cluster_containers import GivenContainers
from headrace.processes.config import StandaloneConfig
from headrace.processes.wired_store import WiredStore
from headrace.runtime.context import system_runtime
from headrace.runtime.retry import RetryPolicy
from headrace.wire.catalogue import INTERNAL_VERSION
from tests.given_containers import give_all

CONTAINERS = 2
QUICKLY = RetryPolicy(initial_s=0.001, delay_max_s=0.01, attempts=5)


class Places:
    """What a controller knows of the stores: each under a letter, and who serves which container."""

    def __init__(self):
        self.watched = WatchedPlacement(system_runtime().entropy)

    def add(self, endpoint, *containers):
        store = chr(ord("a") + len(self.watched.stores))
        self.watched.stores[store] = StoreNode(endpoint, software="1.2.3")
        for container_id in containers:
            self.watched.claims[container_id] = Claim(store, 1)
        return store


class Served:
    """A gate that lets some containers answer."""

    def __init__(self, *containers):
        self.containers = set(containers)

    def serves(self, container_id):
        return container_id in self.containers

    def owner_of(self, container_id):
        return ""


@asynccontextmanager
async def serving(places, *containers, token_key=None):
    """Yield a store in memory that serves these containers, and takes part in the cluster."""
    config, cluster = StandaloneConfig(in_memory=True), GivenContainers(Served(*containers))
    wired = WiredStore(config, system_runtime(), CONTAINERS, cluster=cluster)
    await wired.start()
    await give_all(wired.assignment, CONTAINERS)
    wired.store.answer = BesideStore(wired).answer
    try:
        endpoint = Endpoint("127.0.0.1", await wired.listen("127.0.0.1", 0, token_key))
        places.add(endpoint, *containers)
        yield wired
    finally:
        await wired.stop()


@asynccontextmanager
async def asking(places, *, tokens=lambda _: "", containers=CONTAINERS, answer_s=30.0):
    """Yield what the controller asks."""
    pool, entropy = ConnectionPool(version=INTERNAL_VERSION), system_runtime().entropy
    try:
        yield StoresAway(pool, tokens, places.watched, containers, entropy, QUICKLY, answer_s)
    finally:
        pool.close()
