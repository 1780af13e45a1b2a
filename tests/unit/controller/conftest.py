"""A controller over fakes, behind a real gRPC server on loopback."""

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

import grpc
import pytest

from headrace.controller.buckets.owners import ask_nobody
from headrace.controller.config import ControllerConfig
from headrace.controller.segments.remote.locator import OneStore
from headrace.controller.server import Controller, GrpcServer
from headrace.controller.store.tables import TableStore
from headrace.coordination.memory import MemoryCoordinator
from headrace.model.endpoint import Endpoint
from headrace.rpc.generated import batch_commit_pb2_grpc, controller_pb2_grpc
from headrace.rpc.generated import controller_pb2 as pb
from headrace.runtime.entropy import SeededEntropy
from headrace.testing.memory_metadata_store import MemoryStore
from tests.unit.controller.segment_stores import FakeSegmentStores


class ManualClock:
    """Time that stands still until a test moves it."""

    def __init__(self, now_ms=1_700_000_000_000):
        self.now = now_ms

    def now_ms(self):
        return self.now


class MortalMember:
    """The coordinator, as one controller reaches it until it is killed."""

    def __init__(self, coordinator):
        self._coordinator = coordinator
        self._sessions = []
        self._dead = False

    async def open(self):
        if self._dead:
            await asyncio.Event().wait()
        session = await self._coordinator.open()
        self._sessions.append(session)
        return session

    def die(self):
        self._dead = True
        for session in self._sessions:
            session.expire()


@dataclass
class World:
    """What survives a controller: its store and the segment stores."""

    store: object = field(default_factory=MemoryStore)
    segments: FakeSegmentStores = field(default_factory=FakeSegmentStores)
    clock: ManualClock = field(default_factory=ManualClock)
    config: ControllerConfig = field(default_factory=lambda: ControllerConfig(buckets=2))
    controllers: int = 0
    coordinator: object = field(default_factory=MemoryCoordinator)
    data: Endpoint = field(default_factory=lambda: Endpoint("127.0.0.1", 12345))
    """Where clients find every segment."""
    in_tables: bool = False
    """Keep rows in table segments, through a store of each controller's own."""

    def expire(self, controller):
        """End the session of a controller, which gets no other one: others take its buckets over."""
        controller.context.buckets._coordinator.die()

    def controller(self, *, store=None, segments=None, ask=ask_nobody, **settings):
        """Make a controller, with the given store and segment stores instead of the world's own. It calls
        others with ``ask``.
        """
        self.controllers += 1
        entropy = SeededEntropy(self.controllers)
        segments = segments or self.segments
        if self.in_tables:
            store = TableStore(segments, entropy)
        return Controller(
            store or self.store,
            segments,
            self.clock,
            entropy,
            replace(self.config, **settings),
            OneStore(self.data),
            MortalMember(self.coordinator),
            ask,
        )

    @asynccontextmanager
    async def running(self, **settings):
        controller = self.controller(**settings)
        await controller.start()
        try:
            yield controller
        finally:
            await controller.stop()


@dataclass
class Service:
    """A running service with stubs to call it, and short cuts for what every test needs."""

    controller: Controller
    stub: controller_pb2_grpc.ControllerServiceStub
    batch: batch_commit_pb2_grpc.BatchCommitServiceStub
    world: World
    channel: grpc.aio.Channel
    port: int

    async def create_stream(self, stream="t", segments=1, scope="s", **fields):
        answer = await self.stub.createStream(stream_config(stream, segments, scope, **fields))
        return answer.status

    async def current(self, stream="t", scope="s"):
        """Return [(segment id, low, high)]."""
        ranges = await self.stub.getCurrentSegments(pb.StreamInfo(scope=scope, stream=stream))
        return [(each.segmentId.segmentId, each.minKey, each.maxKey) for each in ranges.segmentRanges]


def stream_config(stream="t", segments=1, scope="s", tags=(), **fields):
    return pb.StreamConfig(
        streamInfo=pb.StreamInfo(scope=scope, stream=stream),
        scalingPolicy=pb.ScalingPolicy(minNumSegments=segments),
        tags=pb.Tags(tag=tags),
        **fields,
    )


@asynccontextmanager
async def serve(world, **settings):
    async with world.running(**settings) as controller:
        server = GrpcServer(controller, "127.0.0.1", 0)
        port = await server.start()
        try:
            async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
                yield Service(
                    controller,
                    controller_pb2_grpc.ControllerServiceStub(channel),
                    batch_commit_pb2_grpc.BatchCommitServiceStub(channel),
                    world,
                    channel,
                    port,
                )
        finally:
            await server.stop()


@pytest.fixture
def world():
    return World()


@pytest.fixture
async def service(world):
    async with serve(world) as running:
        await running.stub.createScope(pb.ScopeInfo(scope="s"))
        yield running
