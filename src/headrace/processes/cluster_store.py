"""A segment store of a cluster, as a process: it serves the containers that the cluster gives it.

Order of start: the facts of the cluster, its data directory together with other stores, the listener, the web
port, and then the store is a member: the ready file says that it is known to the others, and ``/ready`` that
what the map gives it is served. A stop lets others take over first.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace

from headrace import __version__
from headrace.cluster.facts_node import Facts
from headrace.cluster.facts_store import find_facts
from headrace.cluster.finalizing import follow_level
from headrace.cluster.lease_gate import LeaseGate
from headrace.cluster.store_member import StoreMember
from headrace.cluster.store_node import STORES, StoreNode
from headrace.coordination.contract import Coordinator, Session
from headrace.coordination.coordinators import make_coordinator
from headrace.coordination.location import CoordinatorLocation
from headrace.data_directory.log_place import place_of
from headrace.data_directory.shared_directory import check_facts, directory_of, is_in_files
from headrace.errors import InvalidArgumentError, PreconditionError
from headrace.model.data_format import FORMATS_OF_CLUSTERS
from headrace.model.endpoint import Endpoint
from headrace.processes import serving
from headrace.processes.beside_store import BesideStore
from headrace.processes.cluster_containers import ClusterContainers, ClusterGate, OpenedLogs, in_session
from headrace.processes.cluster_store_config import ClusterStoreConfig
from headrace.processes.controller_calls import ControllerCalls, tls_among_processes
from headrace.processes.descriptor_plan import containers_at_once
from headrace.processes.report_sender import ReportSender
from headrace.processes.segment_store import ClusterSeat, ServedStore
from headrace.processes.store_server import StoreAddresses, check_token_key
from headrace.processes.taken_over import OnTakenOver
from headrace.processes.web_port import WebPort
from headrace.processes.wired_store import WiredStore
from headrace.runtime.context import Runtime, system_runtime
from headrace.runtime.host_id import find_host_id
from headrace.security.internal_identity import InternalTokens
from headrace.wal.stores import find_logs
from headrace.web.metrics.metric import Metric
from headrace.web.process_parts import DOWN, STARTING, UP, Contributor
from headrace.web.server import Application


class ClusterStoreServer:
    """One segment store. Start it once, stop it once; ``config`` is complete once it is started.

    ``where`` is the URI of ``coordinator``, for people.
    """

    def __init__(
        self,
        config: ClusterStoreConfig,
        coordinator: Coordinator,
        where: str,
        runtime: Runtime | None = None,
    ) -> None:
        """Raises InvalidArgumentError if settings contradict each other, or a key for tokens is missing."""
        check_token_key(config)
        if config.in_memory:
            raise InvalidArgumentError("a store of a cluster keeps its data on disk: leave out in_memory")
        self.config = config
        self._coordinator = coordinator
        self._where = where
        self._runtime = runtime or system_runtime()
        self._store: ServedStore | None = None
        self._member: StoreMember | None = None
        self._exit = AsyncExitStack()

    async def start(self, on_taken_over: OnTakenOver = lambda _: None) -> StoreAddresses:
        """Start everything; whatever was started is stopped again if a later part fails.

        Nobody takes over a store of a cluster: it is given other containers. ``on_taken_over`` is called if
        the cluster was finalized without this version.

        Raises:
            PreconditionError: there is no cluster, or this process cannot join it.
            UnreachableError: the coordinator does not answer.
            HeadraceError, OSError: as :meth:`ServedStore.open`, :meth:`WebPort.start` and
                :meth:`ServedStore.start`.
        """
        runtime = self._runtime
        facts, others = await in_session(self._coordinator, self._read_facts)
        check_facts(facts)
        config = self.config = _complete(self.config, facts)
        place = None if is_in_files(facts.log) else place_of(facts.log, runtime)
        logs = find_logs(config.data_dir, runtime.filesystem, place)
        opened = OpenedLogs(self._session, facts, logs, runtime.threads)
        lease_gate = LeaseGate()
        gate = ClusterGate(lease_gate)
        containers = ClusterContainers(opened, gate)
        planned = containers_at_once(facts.containers, others + 1)
        store = self._store = ServedStore(
            config, runtime, ClusterSeat(facts, self._where, planned, containers)
        )
        web = WebPort(config, store.protection, self._make_application)
        async with AsyncExitStack() as stack:
            stack.push_async_callback(store.stop)
            await store.open(lambda _: None)
            store.wired.store.answer = BesideStore(store.wired, self._make_part(store.wired)).answer
            stack.push_async_callback(web.stop)
            await web.start()
            await store.start()
            node = StoreNode(
                store.endpoint,
                web.endpoint,
                host=find_host_id(),
                started_ms=runtime.clock.now_ms(),
                software=__version__,
                formats=FORMATS_OF_CLUSTERS,
            )
            member = self._member = StoreMember(
                self._coordinator,
                containers,
                node,
                facts.containers,
                lease_gate,
                runtime.entropy,
                [lambda each: follow_level(each, FORMATS_OF_CLUSTERS, runtime.entropy, on_taken_over)],
            )
            containers.events = member
            gate.placement, gate.here = member.placement, store.endpoint
            member.start()
            stack.push_async_callback(member.stop)
            await _wait_known(member)
            self._report_loads(member, stack)
            store.protection.advise()
            self._exit = stack.pop_all()
        return StoreAddresses(str(store.endpoint), str(web.endpoint), store.protection.tls is not None)

    def _report_loads(self, member: StoreMember, stack: AsyncExitStack) -> None:
        """Have streams scaled by their load: tell any controller of it."""
        assert self._store is not None
        config, key = self.config, self._store.protection.token_key
        calls = ControllerCalls(
            tls_among_processes(config.tls, config.controller_authority),
            None if key is None else InternalTokens(key, self._runtime.clock),
        )
        stack.push_async_callback(calls.close)

        def controllers() -> Sequence[Endpoint]:
            known = {node.endpoint for node in member.controllers.nodes.values()}
            return sorted(each for each in known if each.port)  # one without has not bound it yet

        sender = ReportSender(controllers, calls)
        self._store.wired.report_loads(sender.send, config.scaling)

    async def _read_facts(self, session: Session) -> tuple[Facts, int]:
        """Return them, and how many stores there are."""
        facts = await find_facts(session)
        if facts is None:
            raise PreconditionError(
                f"there is no cluster at {self._where}: make it first, with `headrace cluster init`"
            )
        return facts, len(await session.children(STORES))

    def _make_application(self, hosts: Iterable[str]) -> Application:
        from headrace.web.probes import probe_application  # late, with the web libraries

        assert self._store is not None
        part = self._make_part(self._store.wired)
        gatekeeper = self._store.protection.gatekeeper
        return probe_application([part], BesideStore(self._store.wired, part), __version__, gatekeeper, hosts)

    def _session(self) -> Session:
        assert self._member is not None  # it gives the containers
        return self._member.session

    def _make_part(self, wired: WiredStore) -> ClusterPart:
        return ClusterPart(wired, lambda: self._member)

    async def stop(self) -> None:
        """Let others take over, then stop everything that runs, in reverse order. Idempotent."""
        await self._exit.aclose()

    @property
    def is_stalled(self) -> bool:
        """Whether a thread could not be ended by :meth:`stop`: the process has to exit without it."""
        return self._store is not None and self._store.is_stalled


class ClusterPart:
    """The segment store as those see it who watch the process: of containers, those that the map gives it."""

    def __init__(self, wired: WiredStore, member: Callable[[], StoreMember | None]) -> None:
        self._wired = wired
        self._member = member

    @property
    def metrics(self) -> Sequence[Metric]:
        return self._wired.metrics

    def status(self) -> str:
        return UP if is_known(self._member()) else STARTING

    def statistics(self) -> Mapping[str, object]:
        found = self._wired.statistics()
        containers = found["containers"]
        assert isinstance(containers, dict)
        return {**found, "containers": {n: each for n, each in containers.items() if self._is_wanted(n)}}

    def contributors(self) -> Sequence[Contributor]:
        known = is_known(self._member())
        membership = Contributor("cluster", UP if known else DOWN)
        return [membership, *filter(self._is_shown, self._wired.contributors())]

    def _is_shown(self, found: Contributor) -> bool:
        kind, _, number = found.name.partition("-")
        if kind != "container":
            return True
        if not self._is_wanted(int(number)):
            return False
        if found.status == UP and not self._wired.is_served(int(number)):
            found.hindered = "waits for its claim"
        return True

    def _is_wanted(self, container_id: int) -> bool:
        member = self._member()
        return member is not None and member.placement.intended(container_id) == member.id


def is_known(member: StoreMember | None) -> bool:
    """Whether the other members know of this one."""
    return member is not None and member.id in member.placement.stores


async def _wait_known(member: StoreMember) -> None:
    known = asyncio.Event()
    member.placement.on_change(lambda: known.set() if is_known(member) else None)
    await known.wait()


def _complete(config: ClusterStoreConfig, facts: Facts) -> ClusterStoreConfig:
    """Return the settings with what the facts say.

    Raises:
        InvalidArgumentError: a setting says something else.
    """
    told = {"containers": facts.containers, "storage": facts.storage, "log": facts.log}
    for name, fact in told.items():
        given = getattr(config, name)
        if given is not None and given != fact:
            raise InvalidArgumentError(
                f"{name} = {given!r}, and the cluster was made with {fact!r}: leave it out"
            )
    return replace(
        config,
        data_dir=directory_of(facts.log, config.data_dir),
        containers=facts.containers,
        storage=facts.storage,
    )


def run(config: ClusterStoreConfig, location: CoordinatorLocation) -> None:
    """Run a segment store in this process until a signal stops it; see :func:`serving.run`."""
    runtime = system_runtime()
    serving.run(
        lambda: ClusterStoreServer(
            config, make_coordinator(location, runtime.threads, config.zookeeper), location.place, runtime
        )
    )
