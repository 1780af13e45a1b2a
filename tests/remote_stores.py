"""Segment stores behind real connections of this machine, and a controller's calls to them."""

from contextlib import asynccontextmanager

from headrace.client.connections.pool import ConnectionPool
from headrace.controller.segments.remote.locator import OneStore
from headrace.controller.segments.remote.remote_segments import RemoteSegments
from headrace.model.endpoint import Endpoint
from headrace.model.names import container_key
from headrace.processes.config import StandaloneConfig
from headrace.processes.wired_store import WiredStore
from headrace.runtime.context import system_runtime
from headrace.runtime.retry import RetryPolicy
from headrace.wire.catalogue import INTERNAL_VERSION

QUICKLY = RetryPolicy(initial_s=0.001, delay_max_s=0.01, attempts=7)


class TwoStores:
    """Segments divided by what follows from their names; it may be told wrong first."""

    def __init__(self, endpoints, *, wrong=False):
        self._endpoints = endpoints
        self._wrong = wrong
        self.corrected = set()

    def locate(self, segment):
        key = container_key(segment)
        wrong = self._wrong and key not in self.corrected
        return self._endpoints[(sum(key.encode()) + wrong) % len(self._endpoints)]

    def moved(self, segment, owner):
        self.corrected.add(container_key(segment))

    def stores(self):
        return self._endpoints


@asynccontextmanager
async def listening(containers=2, token_key=None, tls=None):
    """Yield a data plane in memory, and where it listens."""
    data_plane = WiredStore(StandaloneConfig(in_memory=True), system_runtime(), containers)
    await data_plane.start()
    try:
        yield data_plane, Endpoint("127.0.0.1", await data_plane.listen("127.0.0.1", 0, token_key, tls))
    finally:
        await data_plane.stop()


@asynccontextmanager
async def calling(locator, tokens=lambda segment: "", version=INTERNAL_VERSION):
    """Yield the calls of one controller."""
    pool = ConnectionPool(version=version)
    try:
        yield RemoteSegments(pool, locator, tokens, system_runtime().entropy, QUICKLY)
    finally:
        pool.close()


@asynccontextmanager
async def remote_segments(containers=2):
    """Yield calls to one store, over connections."""
    async with listening(containers) as (_, endpoint), calling(OneStore(endpoint)) as segments:
        yield segments
