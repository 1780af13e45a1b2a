"""A controller that is a process by itself: its segment stores, and other controllers, are elsewhere.

Order of start: the coordinator and the facts of the cluster, the web port (so that its health can be asked),
the placement of containers, which needs the coordinator alone, and then the controller, once its rows can be
reached: they lie in containers. gRPC follows, and only then the ready file. Stopping is the reverse order.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass

from headrace.client.connections.pool import ConnectionPool
from headrace.client.connections.tls import tls_context
from headrace.cluster.facts_node import Facts
from headrace.cluster.facts_store import note_buckets, read_facts
from headrace.cluster.finalizing import follow_level
from headrace.cluster.levels import check_level
from headrace.cluster.placement_service import PlacementService
from headrace.cluster.session_works import RETRY
from headrace.controller.segments.remote.remote_segments import RemoteSegments
from headrace.controller.segments.remote.store_calls import TokenSource
from headrace.controller.segments.remote.stores_away import StoresAway
from headrace.controller.segments.remote.watched_locator import WatchedLocator
from headrace.coordination.contract import Coordinator, Session
from headrace.coordination.coordinators import make_coordinator
from headrace.coordination.location import CoordinatorLocation
from headrace.errors import HeadraceError, OverloadError, OwnershipError, UnknownOutcomeError
from headrace.model.data_format import FORMATS_OF_CLUSTERS
from headrace.processes import serving
from headrace.processes.cluster_part import ClusterPart
from headrace.processes.controller import ServedController
from headrace.processes.controller_calls import ControllerCalls, tls_among_processes
from headrace.processes.controller_config import ControllerServerConfig
from headrace.processes.protection import Protection
from headrace.processes.ready_file import remove_ready_file
from headrace.processes.taken_over import OnTakenOver
from headrace.processes.web_port import WebPort
from headrace.runtime.context import Runtime, system_runtime
from headrace.runtime.logs import logger
from headrace.security.internal_identity import InternalTokens
from headrace.wire.catalogue import INTERNAL_VERSION

_log = logger(__name__)

_PASSING = (OwnershipError, OverloadError, UnknownOutcomeError)
"""What a start waits out: nothing of it is about what was asked."""


@dataclass(slots=True)
class ControllerAddresses:
    """Where clients find a running controller, each ``host:port``."""

    controller: str
    rest: str
    tls: bool = False
    """Whether both are encrypted."""

    def as_dict(self) -> dict[str, str | bool]:
        return asdict(self)

    def __str__(self) -> str:
        return f"controller {self.controller}, rest {self.rest}"


class ControllerServer:
    """One controller of a cluster. Start it once, stop it once."""

    def __init__(
        self,
        config: ControllerServerConfig,
        runtime: Runtime | None = None,
        coordinator: Coordinator | None = None,
    ) -> None:
        """``coordinator``: instead of the one that the settings name.

        Raises InvalidArgumentError if settings contradict each other, or what they name cannot be used, and
        UnsupportedError if the library for the coordinator is not installed.
        """
        config.check()
        self.config = config
        self._runtime = runtime or system_runtime()
        self._coordinator = coordinator or make_coordinator(
            CoordinatorLocation.parse(config.coordinator), self._runtime.threads, config.zookeeper
        )
        self._protection = Protection(config, self._runtime)
        self._exit = AsyncExitStack()
        self.is_stalled = False
        """No thread of it is in a call that could outlive it."""

    async def start(self, on_taken_over: OnTakenOver = lambda _: None) -> ControllerAddresses:
        """Start everything; whatever was started is stopped again if a later part fails.

        Waits without a bound for the coordinator and for the containers with its rows. Nobody takes it over:
        ``on_taken_over`` is called if the cluster was finalized without this version.

        Raises:
            PreconditionError: the cluster was not made yet, or is at a format that is not known here.
            InvalidArgumentError: users, token key or certificate are bad.
            OSError: an address is taken, or none of this machine; the message names the option to change.
        """
        config, runtime, protection = self.config, self._runtime, self._protection
        async with AsyncExitStack() as stack:
            stack.push_async_callback(protection.close)
            protection.load()
            if config.ready_file is not None:
                remove_ready_file(config.ready_file)
            facts = await self._ask(read_facts)
            check_level(facts, FORMATS_OF_CLUSTERS)
            service = PlacementService(
                self._coordinator,
                facts.containers,
                runtime.clock,
                runtime.entropy,
                beside=[lambda each: follow_level(each, FORMATS_OF_CLUSTERS, runtime.entropy, on_taken_over)],
            )
            part = ClusterPart(service, facts.containers)
            part.waits_for = "the segment stores"
            locator = WatchedLocator(service.placement, facts.containers)
            tls = tls_among_processes(config.tls, config.store_authority)
            key = protection.token_key
            identity = None if key is None else InternalTokens(key, runtime.clock)
            tokens: TokenSource = identity or _no_token
            pool = ConnectionPool(
                version=INTERNAL_VERSION,
                tls=None if tls is None else tls_context(tls),
                is_gone=locator.is_gone,
            )
            stack.callback(pool.close)
            calls = ControllerCalls(tls, identity)
            stack.push_async_callback(calls.close)
            controller = ServedController(
                config,
                runtime,
                RemoteSegments(pool, locator, tokens, runtime.entropy),
                locator,
                self._coordinator,
                protection,
                StoresAway(pool, tokens, service.placement, facts.containers, runtime.entropy),
                [part],
                buckets=facts.buckets,
                ask=calls.ask,
            )
            web = WebPort(config, protection, controller.make_application)
            stack.push_async_callback(web.stop)
            await web.start()
            stack.push_async_callback(service.stop)
            service.start(str(web.endpoint))
            stack.push_async_callback(controller.stop)
            buckets = await self._recover(controller, part)
            if facts.buckets != buckets:
                await self._ask(lambda session: note_buckets(session, buckets))
            await controller.serve()
            protection.advise()
            self._exit = stack.pop_all()
        return ControllerAddresses(
            str(controller.grpc_endpoint), str(web.endpoint), protection.tls is not None
        )

    async def stop(self) -> None:
        """Stop everything that runs, in reverse order. Idempotent."""
        await self._exit.aclose()

    async def _ask(self, ask: Callable[[Session], Awaitable[Facts]]) -> Facts:
        """Return the facts that ``ask`` returns of a session. Raises PreconditionError: there are none."""
        failures = 0
        while True:
            try:
                session = await self._coordinator.open()
                try:
                    return await ask(session)
                finally:
                    await session.close()
            except _PASSING as error:
                failures += 1
                await self._pause(failures, "the coordinator", error)

    async def _recover(self, controller: ServedController, part: ClusterPart) -> int:
        failures = 0
        while True:
            try:
                buckets = await controller.recover()
            except _PASSING as error:
                failures += 1
                part.waits_for = f"the segment stores: {error}"
                await self._pause(failures, "the segment stores", error)
            else:
                part.waits_for = ""
                return buckets

    async def _pause(self, failures: int, what: str, error: HeadraceError) -> None:
        if failures == 1:
            _log.warning(f"the controller waits for {what}", error=str(error))
        await asyncio.sleep(RETRY.delay_s(failures, self._runtime.entropy.random()))


def _no_token(segment: str) -> str:  # noqa: ARG001 - stores want none
    return ""


def run(config: ControllerServerConfig) -> None:
    """Run a controller in this process until a signal stops it; see :func:`serving.run`."""
    serving.run(lambda: ControllerServer(config))
