"""Clients as processes of a simulated network, to be killed and paused; with one small store and controller.

What they do and what is right is for those who use it; a seed decides the rest.
"""

import random

from fake_server import FakeController, FakeStore
from test_any_order import MemoryControl

from headrace.client import ClientConfig, ReaderConfig, connect
from headrace.client.connections import pool
from headrace.client.face import core, reader_groups
from headrace.client.reconnect_policy import ReconnectPolicy
from headrace.rpc.generated import controller_pb2 as pb
from headrace.runtime.entropy import SeededEntropy
from headrace.testing.process import TEST_HOST


async def speaks_no_tls(_endpoint, _timeout_s):
    return False


class Controller(FakeController):
    """Says where the store is for clients on other hosts."""

    async def getURI(self, request, context):  # noqa: N802 - the name of the call is that of the protocol
        return pb.NodeUri(endpoint=TEST_HOST, port=self.store.port)


class SimulatedClients:
    """The world in which the clients are."""

    def __init__(self, seed, simulation, monkeypatch):
        self.draws = random.Random(f"clients {seed}")
        self.simulation = simulation
        self.store = FakeStore()
        self.store.faults.random = random.Random(f"faults {seed}")
        self.controller = Controller(self.store)
        MemoryControl.controller, MemoryControl.draws = self.controller, random.Random(f"control {seed}")
        monkeypatch.setattr(core, "Controller", MemoryControl)
        # What readers tell of their distance depends on it: the seed would not decide it.
        monkeypatch.setattr(reader_groups, "SystemClock", lambda: simulation.clock)
        # A connection that breaks before it was greeted makes a client look for TLS, which is not simulated.
        monkeypatch.setattr(pool, "speaks_tls", speaks_no_tls)
        self._hosts = 0

    async def start(self):
        await self.store.start()
        faults = self.store.faults
        lost, cut = self.draws.choice([(0.0, 0.0), (0.1, 0.02), (0.2, 0.0)])
        faults.drop_before_append = faults.drop_after_append = lost
        faults.drop_read = cut

    def new_host(self):
        self._hosts += 1
        return self.simulation.host(f"client{self._hosts}")

    def connect(self, give_up_s=120.0):
        """Return a client of the process that calls."""
        reader = ReaderConfig(reconnect=ReconnectPolicy(initial_s=0.01, give_up_s=give_up_s))
        config = ClientConfig(reader=reader, credentials=None)
        return connect("tcp://memory", config, entropy=SeededEntropy(self.draws.random()))

    def be_well(self):
        """Let nothing go wrong any more."""
        faults = self.store.faults
        faults.drop_before_append = faults.drop_after_append = faults.drop_read = 0.0
