"""Controllers that share one segment store and one coordinator, in one process, on sockets of their own.

Each has a store of rows, a gRPC server and a port of its own, and reaches the segment store through a
:class:`Reach`, by which it can be stopped in the middle of what it does. One that dies has no further effect
on anything, and its session lasts until it is ended: time ends it after a minute, because a busy machine
would end those of the living otherwise.
"""

import asyncio
import itertools
from contextlib import AsyncExitStack, asynccontextmanager

import grpc

from headrace.client import ClientConfig, connect
from headrace.controller.config import ControllerConfig, RetentionConfig
from headrace.controller.segments.remote.locator import OneStore
from headrace.controller.server import Controller, GrpcServer
from headrace.controller.settings.cut_series import CutSeriesConfig
from headrace.controller.settings.watermarks import WatermarkConfig
from headrace.controller.store.tables import TableStore
from headrace.model.buckets import bucket_of
from headrace.model.endpoint import Endpoint
from headrace.processes.config import StandaloneConfig
from headrace.processes.wired_store import WiredStore
from headrace.rpc.generated import controller_pb2 as pb
from headrace.rpc.generated.controller_pb2_grpc import ControllerServiceStub
from headrace.runtime.context import system_runtime
from headrace.testing.coordination_faults import CoordinationFaults, FaultyCoordinator
from tests.unit.controller.calls import eventually

HOST = "127.0.0.1"
PATIENT = ClientConfig(control_attempts=100)
QUICK = ControllerConfig(
    lease_ms_min=1,
    lease_grace_ms_min=0,
    retention=RetentionConfig(period_s=0.1),
    cut_series=CutSeriesConfig(period_s=0.1),
    watermarks=WatermarkConfig(period_s=0.1),
)
"""What runs now and then runs often, and leases are as short as a caller wants."""


class Reach:
    """The segment store, as one controller reaches it while it lives.

    ``hold`` stops the calls about a segment for good; everything else goes on.
    """

    def __init__(self, store):
        self._store = store
        self._alive = True
        self._held = {}

    def hold(self, call, prefix):
        """Stop each ``call`` about a segment that begins with ``prefix``; the answer tells of it."""
        return self._held.setdefault((call, prefix), asyncio.Event())

    def end(self):
        self._alive = False

    def __getattr__(self, name):
        method = getattr(self._store, name)
        if not asyncio.iscoroutinefunction(method):
            return method

        async def call(*args, **kwargs):
            for (held, prefix), reached in self._held.items():
                segments = args[0] if args and isinstance(args[0], list | tuple) else args[:1]
                if held == name and any(str(segment).startswith(prefix) for segment in segments):
                    reached.set()
                    await asyncio.Event().wait()
            if self._alive:
                answer = await method(*args, **kwargs)
            if not self._alive:
                await asyncio.Event().wait()  # the dead wait for ever
            return answer

        return call


class SharingController:
    """One controller, with what is its own."""

    def __init__(self, cluster, number, port):
        self._coordinator = cluster.coordinator
        self._sessions = []
        runtime = cluster.runtime
        self.reach = Reach(cluster.data_plane.store)
        self._tables = TableStore(self.reach, runtime.entropy)
        self.controller = Controller(
            self._tables, self.reach, runtime.clock, runtime.entropy, cluster.config, cluster.placement, self
        )
        self.name = f"controller {number}"
        self.endpoint = None
        self._port = port
        self._grpc = None
        self._over = False

    async def open(self):
        """Open a session with the coordinator, as a ``Coordinator`` does."""
        if self._over:
            await asyncio.Event().wait()
        session = await self._coordinator.open()
        self._sessions.append(session)
        return session

    async def start(self):
        await self.controller.start()
        self._grpc = GrpcServer(self.controller, HOST, self._port)
        self.endpoint = Endpoint(HOST, self._grpc.bind())
        self.controller.publish(self.endpoint)
        await self._grpc.start()

    async def die(self):
        """End without a word: nothing of it has any effect from now on, its port is closed."""
        self._over = True
        self.reach.end()
        for session in self._sessions:
            session.suspend()
        await self.stop()

    def expire(self):
        """End its session with the coordinator, whether it lives or not."""
        self._sessions[-1].expire()

    async def stop(self):
        """Stop cleanly. Idempotent."""
        if self._grpc is not None:
            await self._grpc.stop(0.0 if self._over else 0.5)
            await self.controller.stop()
            await self._tables.close()
            self._grpc = None


class Cluster:
    """A segment store, and the controllers that share it."""

    def __init__(self, config, session_timeout_s):
        self.runtime = system_runtime()
        self.data_plane = WiredStore(StandaloneConfig(in_memory=True), self.runtime, 4)
        faults = CoordinationFaults(session_timeout_s=session_timeout_s, margin_s=session_timeout_s / 4)
        self.coordinator = FaultyCoordinator(self.runtime.entropy, faults)
        self.config = config
        self.members = []
        self._clients = AsyncExitStack()

    async def add(self, port=0):
        """Start one more controller and return it; ``port`` may be that of one that has ended."""
        member = SharingController(self, len(self.members) + 1, port)
        await member.start()
        self.members.append(member)
        return member

    async def client(self, *members):
        """Return a client that knows the given controllers, and asks the first one while it answers."""
        uri = "tcp://" + ",".join(str(member.endpoint) for member in members)
        return await self._clients.enter_async_context(connect(uri, PATIENT))

    async def close(self):
        await self._clients.aclose()
        for member in self.members:
            await member.stop()
        await self.data_plane.stop()

    # ---------------------------------------------------------------------------------- buckets

    async def buckets(self, member, service=pb.ControllerToBucketMappingRequest.RetentionService):
        """Ask ``member`` whose the buckets are: sets of buckets by endpoint."""
        async with grpc.aio.insecure_channel(str(member.endpoint)) as channel:
            request = pb.ControllerToBucketMappingRequest(serviceType=service)
            answer = await ControllerServiceStub(channel).getControllerToBucketMapping(request)
        return {Endpoint.parse(where, 0): set(ids.id) for where, ids in answer.mapping.items()}

    async def divided(self, *members):
        """Wait until these controllers, and no others, own all buckets, in equal shares."""
        least, more = divmod(self.config.buckets, len(members))
        sizes = {least, least + (more > 0)}

        async def are():
            views = [await self.buckets(member) for member in members]
            for view in views:
                owned = [bucket for mine in view.values() for bucket in mine]
                if set(view) != {member.endpoint for member in members}:
                    return False
                if sorted(owned) != list(range(self.config.buckets)):
                    return False
            return {len(mine) for mine in views[0].values()} <= sizes

        await eventually(are, 30)

    async def names(self, member, scope):
        """Return endless names of streams whose buckets ``member`` owns now."""
        owned = (await self.buckets(member))[member.endpoint]
        return (
            name
            for name in (f"stream-{number}" for number in itertools.count())
            if bucket_of(scope, name, self.config.buckets) in owned
        )


@asynccontextmanager
async def sharing(config, *, controllers=2, session_timeout_s=60.0):
    """Run so many controllers over one in-memory segment store. Yields the :class:`Cluster`."""
    cluster = Cluster(config, session_timeout_s)
    await cluster.data_plane.start()
    try:
        port = await cluster.data_plane.listen(HOST, 0)
        cluster.placement = OneStore(Endpoint(HOST, port))
        for _ in range(controllers):
            await cluster.add()
        await cluster.divided(*cluster.members)
        yield cluster
    finally:
        await cluster.close()
