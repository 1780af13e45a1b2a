"""What a segment store is made of: logs, chunks, cache, containers and the listener, wired together."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from dataclasses import replace
from functools import partial
from typing import Final

from headrace.data_directory.chunk_root import make_chunk_root, proof_of
from headrace.data_directory.chunk_store import ChunkStore, StoreClaim, claim_store, note_store, store_of
from headrace.data_directory.log_place import place_of
from headrace.model.endpoint import Endpoint
from headrace.processes.cluster_containers import GivenContainers
from headrace.processes.config import SegmentStoreConfig
from headrace.processes.descriptor_plan import DescriptorPlan
from headrace.processes.optimiser_status import optimiser_status
from headrace.processes.own_cluster import OwnCluster
from headrace.processes.store_health import store_contributors
from headrace.runtime.allocator import return_free_memory
from headrace.runtime.context import Runtime
from headrace.runtime.supervisor import Supervisor
from headrace.security.tls_transport import ContextSource
from headrace.security.token_checker import TokenChecker
from headrace.security.tokens import TokenKey
from headrace.segmentstore.attributes.page_cache import PageCache
from headrace.segmentstore.container.components import ContainerComponents
from headrace.segmentstore.container.container import SegmentContainer
from headrace.segmentstore.hosting.assignment import ContainerAssignment
from headrace.segmentstore.hosting.hosted_container import ContainerHealth, OnFailed
from headrace.segmentstore.hosting.registry import ContainerRegistry
from headrace.segmentstore.ingress.authorisation import Authorise, allow_all
from headrace.segmentstore.ingress.config import IngressConfig
from headrace.segmentstore.ingress.listener import Listener
from headrace.segmentstore.readindex.cache.cache import BlockCache
from headrace.segmentstore.readindex.cache.eviction_policy import CacheConfig
from headrace.segmentstore.scaling.config import ScalingConfig
from headrace.segmentstore.scaling.load_sampler import LoadSampler
from headrace.segmentstore.scaling.report_queue import ReportQueue, SendReports
from headrace.segmentstore.store import SegmentStore
from headrace.storage.checkpoints.manifest import SystemFacts
from headrace.storage.chunks.optimiser_switch import OptimiserSwitch
from headrace.storage.providers.config import HDFS_THREADS
from headrace.storage.providers.contract import ChunkProvider
from headrace.storage.providers.files.chunk_threads import ChunkThreads
from headrace.storage.providers.files.filesystem import FilesystemChunkProvider
from headrace.storage.providers.stores import make_provider
from headrace.storage.providers.wrappers.measured import MeasuredChunkProvider
from headrace.wal.config import WalConfig
from headrace.wal.contract import Wal
from headrace.wal.frame_memory import FrameMemory
from headrace.wal.loop_writes import LoopWrites
from headrace.wal.stores import frames_for, make_logs
from headrace.web.metrics.metric import Metric
from headrace.web.process_parts import STARTING, UP, Contributor

_logger = logging.getLogger(__name__)

NOWHERE: Final = Endpoint("", 0)
"""Of a store that nobody has to find."""

_THREADS_END_S: Final = 10.0
"""How long a stop waits for active calls to chunk files."""

_LOGS_END_S: Final = 10.0
"""How long a stop waits for one more container to end, besides the time that it may spend on storing."""

_TRIM_EVERY_S: Final = 10.0
"""How often memory goes back to the system: of frames that no log has needed for so long, and freed one."""


class WiredStore:
    """Everything below the controller. Runs on the loop that calls :meth:`start`.

    Args:
        config: of the process.
        runtime: of the process.
        containers: how many.
        descriptors: how many files and connections it may have open; None: as many as it is configured for.
        chunk_store: where chunks are, and what the data directory says of it; None: as configured, unproved.
        cluster: gives and takes the containers, hears of them, and has the gate in front of what they answer;
            None: one of its own.
    """

    def __init__(
        self,
        config: SegmentStoreConfig,
        runtime: Runtime,
        containers: int,
        descriptors: DescriptorPlan | None = None,
        chunk_store: ChunkStore | None = None,
        cluster: GivenContainers | None = None,
    ) -> None:
        self._config = config
        files_max = config.chunk_files.descriptors_max
        self._descriptors = descriptors or DescriptorPlan(config.connections_max, files_max)
        self._ingress = IngressConfig(
            connections_max=self._descriptors.connections_max,
            connection_bytes_max=config.connection_bytes_max,
            stall_s=config.connection_stall_s,
        )
        self._runtime = runtime
        self._chunk_store = chunk_store or store_of(config)
        self._containers = containers
        self._facts = None if config.in_memory else SystemFacts(containers, self._chunk_store.system)
        place = place_of(self._chunk_store.log, runtime, config.log_in_bucket)
        wal_config = frames_for(WalConfig(frames_max=config.frames_max), place)
        self._frames = FrameMemory(wal_config.frame_bytes_max)
        self._loop_writes = LoopWrites(config.loop_writes)
        self._logs = make_logs(
            config.data_dir,
            runtime,
            wal_config,
            in_memory=config.in_memory,
            frames=self._frames,
            loop_writes=self._loop_writes,
            place=place,
        )
        self._supervisor = Supervisor("segment store")
        self._chunk_threads: ChunkThreads | None = None
        self.is_stalled = False
        """After a stop: a thread is in a call that the file system does not answer; it would outlive us."""
        self._provider: MeasuredChunkProvider | None = None
        self._chunk_files: FilesystemChunkProvider | None = None
        self._listener: Listener | None = None
        self._sampler: LoadSampler | None = None
        self._reports: ReportQueue | None = None
        self._cache = BlockCache(
            CacheConfig(bytes_max=config.cache_bytes, soft_bytes_max=config.cache_soft_bytes)
        )
        self._index_pages = PageCache(config.index_cache_bytes)
        self._optimiser_switch = OptimiserSwitch()
        self._is_started = False
        self._cluster = cluster or OwnCluster(containers, runtime)
        self._gate = self._cluster.gate
        self.registry = ContainerRegistry(containers, self._gate)
        self.assignment = ContainerAssignment(
            self.registry,
            self._make_container,
            on_fenced=self._cluster.on_fenced,
            on_change=self._cluster.on_change,
            stop_timeout_s=config.container.storage_writer.stop_flush_s + _LOGS_END_S,
        )
        self.store = SegmentStore(self.registry, runtime.entropy)
        self._cluster.hosts = self.assignment, self.registry

    async def start(self, here: Endpoint = NOWHERE) -> None:
        """Claim the store of the chunks, then recover what its cluster gives it at the start. Clients find it
        ``here``.

        Raises what the first that fails raises, and as :func:`claim_store`.
        """
        self._provider = MeasuredChunkProvider(self._make_provider())
        if self._chunk_store.belongs_to_one:
            claiming = StoreClaim(self._claim_store, self._chunk_store, self._supervisor)
            try:
                await claiming.wait()
            except BaseException:
                await self._close_storage()
                raise
        try:
            await self._cluster.start(here)
        except BaseException:
            try:
                await self._end_containers()
            except Exception:  # the error of the start is raised
                _logger.exception("containers did not end in order after a failed start")
            await self._close_storage()
            raise
        self._supervisor.spawn("trim", self._trim())
        self._is_started = True

    async def _trim(self) -> None:
        while True:
            await asyncio.sleep(_TRIM_EVERY_S)
            self._frames.trim()
            return_free_memory()

    def _make_provider(self) -> ChunkProvider:
        location, root, files = self._chunk_store.location, self._chunk_store.root, self._runtime.filesystem
        if root is None:
            if location.scheme == "hdfs":
                self._chunk_threads = ChunkThreads.start(self._runtime.threads, HDFS_THREADS)
            return make_provider(location, self._runtime, self._chunk_threads)
        if not files.exists(root):
            make_chunk_root(files, root)
        self._chunk_threads = ChunkThreads.start(self._runtime.threads, self._config.chunk_threads)
        chunk_files = replace(self._config.chunk_files, descriptors_max=self._descriptors.chunk_files_max)
        provider = make_provider(
            location,
            self._runtime,
            self._chunk_threads,
            files=chunk_files,
            proof=proof_of(root),
        )
        assert isinstance(provider, FilesystemChunkProvider)
        self._chunk_files = provider
        return provider

    async def _claim_store(self) -> None:
        """Raises as :func:`claim_store`."""
        assert self._provider is not None
        store, directory, runtime = self._chunk_store, self._config.data_dir, self._runtime
        record = partial(note_store, runtime.filesystem, store, directory, self._containers)
        await claim_store(self._provider, store, directory, runtime, record)

    def _make_container(self, container_id: int, on_failed: OnFailed) -> SegmentContainer:
        assert self._provider is not None
        components = ContainerComponents(
            wal=self._make_wal(container_id),
            chunks=self._provider,
            cache=self._cache,
            index_pages=self._index_pages,
            optimiser_switch=self._optimiser_switch,
            clock=self._runtime.clock,
            entropy=self._runtime.entropy,
            system=self._facts,
            may_answer=partial(self._gate.serves, container_id),
        )
        return SegmentContainer(container_id, components, self._config.container, on_failed)

    def _make_wal(self, container_id: int) -> Wal:
        return self._logs.make_wal(container_id)

    async def listen(
        self,
        host: str,
        port: int,
        token_key: TokenKey | None = None,
        tls: ContextSource | None = None,
    ) -> int:
        """Accept connections; answer the port. Requests need no tokens if there is no key; connections are
        encrypted with ``tls``.

        Raises OSError if the address is taken.
        """
        authorise: Authorise = allow_all
        if token_key is not None:
            leeway_s = self._config.auth.token_leeway_s
            authorise = TokenChecker(token_key, self._runtime.clock, leeway_s).authorise
        self._listener = Listener(self.store, self._ingress, authorise)
        return await self._listener.start(host, port, tls)

    def report_loads(self, send: SendReports, config: ScalingConfig) -> None:
        """Meter the segments of streams that scale by themselves from now on, and report with ``send``."""
        self._reports = ReportQueue(send, config)
        self._sampler = LoadSampler(self.registry, self._reports, self._runtime.clock, config)
        self._supervisor.spawn("loads", self._sampler.run())
        self._supervisor.spawn("load reports", self._reports.run())

    def optimisers(self) -> dict[str, object]:
        """The state and progress of the storage optimisers, as a JSON object."""
        running = {each.container_id: each.tiers.optimiser for each in self.registry.running()}
        found = {number: each.statistics() for number, each in running.items() if each is not None}
        mode = self._config.container.optimiser.mode
        return optimiser_status(mode, paused=self._optimiser_switch.is_paused, found=found)

    def pause_optimisers(self, *, paused: bool) -> None:
        """Pause the storage optimisers after their current step, or resume them, also of containers that
        start later.
        """
        switch = self._optimiser_switch
        (switch.pause if paused else switch.resume)()

    def is_served(self, container_id: int) -> bool:
        """Whether a container that runs here may answer."""
        return self._gate.serves(container_id)

    def container_health(self) -> list[ContainerHealth]:
        """State of every container, running or not."""
        return self.registry.health()

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """What of :meth:`statistics` systems for monitoring read."""
        from headrace.processes.metrics.table import METRICS  # late: most processes are never asked

        return METRICS

    def status(self) -> str:
        """STARTING until every container was recovered once, then UP."""
        return UP if self._is_started else STARTING

    def contributors(self) -> list[Contributor]:
        """The state of long-term storage, and of every container."""
        refusals = {} if self._provider is None else self._provider.statistics().refusals()
        return store_contributors(refusals, self.container_health())

    def statistics(self) -> dict[str, object]:
        """What cache, storage, listener and every container count and hold now."""
        running = {container.container_id: container for container in self.registry.running()}
        found: dict[str, object] = {
            "cache": self._cache.statistics(),
            "index_pages": self._index_pages.statistics(),
        }
        found["frames"] = self._frames.statistics()
        found["loop_writes"] = self._loop_writes.statistics()
        if self._provider is not None:
            found["chunks"] = self._provider.statistics()
        if self._chunk_files is not None:
            found["chunk_files"] = self._chunk_files.statistics()
        if self._chunk_threads is not None:
            found["storage_threads"] = self._chunk_threads.statistics()
        if self._listener is not None:
            found["listener"] = self._listener.statistics()
        if self._sampler is not None and self._reports is not None:
            found["loads"] = self._sampler.statistics()
            found["load_reports"] = self._reports.statistics()
        found["containers"] = {
            health.container_id: {"health": health}
            | (running[health.container_id].statistics() if health.container_id in running else {})
            for health in self.registry.health()
        }
        return found

    async def stop(self) -> None:
        """Close connections, make durable what was accepted, stop. Idempotent.

        It ends although the disk of a log is stalled: ``is_stalled`` says so, and such a container goes on
        ending.
        """
        await self._supervisor.stop()
        try:
            if self._listener is not None:
                await self._listener.stop()
        finally:
            try:
                await self._end_containers()
            finally:
                await self._close_storage()

    async def _end_containers(self) -> None:
        """Raises what the first raises that did not stop in order."""
        self._cluster.close()
        try:
            await self.assignment.take_all()
        finally:
            await self._cluster.stop()

    @property
    def log_is_stalled(self) -> bool:
        """After a stop: whether a thread may still write to a log."""
        return self.assignment.is_stalled

    async def _close_storage(self) -> None:
        if self.log_is_stalled:
            self.is_stalled = True
            return  # a container that has not ended uses it
        await self._logs.close()
        if self._chunk_threads is not None:
            self._chunk_threads.close()
            try:
                async with asyncio.timeout(_THREADS_END_S):
                    await self._chunk_threads.wait_closed()
            except TimeoutError:
                self.is_stalled = True
                _logger.warning("a call to the chunk files is stalled and abandoned; the log has its bytes")
            self._chunk_threads = None
        if self._provider is not None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_THREADS_END_S):
                    await self._provider.close()
