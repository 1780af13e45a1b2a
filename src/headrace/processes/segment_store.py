"""The segment store of a process: it takes a data directory and what protects it, listens, recovers.

Order of start: users, keys and certificates, the lock of the directory, the listener, and then containers:
each recovers from its log, and waits for space if the disk is full. Stopping is the reverse order. A kill at
any moment is safe: starting is always recovery.
"""

from __future__ import annotations

import logging
from contextlib import AsyncExitStack
from dataclasses import dataclass

from headrace.cluster.facts_node import Facts
from headrace.data_directory.shared_directory import take_shared_directory
from headrace.data_directory.taken_directory import TakenDirectory, take_directory
from headrace.model.endpoint import Endpoint
from headrace.processes.cluster_containers import ClusterContainers, GivenContainers
from headrace.processes.config import SegmentStoreConfig
from headrace.processes.descriptor_plan import DescriptorPlan, plan_descriptors
from headrace.processes.own_cluster import OwnCluster
from headrace.processes.port_errors import naming_port
from headrace.processes.protection import Protection
from headrace.processes.ready_file import remove_ready_file
from headrace.processes.taken_over import OnTakenOver
from headrace.processes.wired_store import WiredStore
from headrace.runtime.context import Runtime
from headrace.runtime.descriptors import find_limit

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ClusterSeat:
    """What a segment store has of its cluster."""

    facts: Facts
    where: str
    """The URI of what its members agree through."""
    planned: int
    """For how many containers at the same time memory and descriptors are planned."""
    containers: ClusterContainers


class ServedStore:
    """The segment store, as one part of a process. Started once, stopped once."""

    def __init__(
        self, config: SegmentStoreConfig, runtime: Runtime, cluster: ClusterSeat | None = None
    ) -> None:
        """``cluster``: its place there; None: it is alone, in a cluster of its own.

        Raises InvalidArgumentError if settings contradict each other.
        """
        config.check()
        self._cluster = cluster
        self._config = config
        self._runtime = runtime
        self._exit = AsyncExitStack()
        self._wired: WiredStore | None = None
        self._own: OwnCluster | None = None
        self._port = config.segmentstore_port
        self.protection = Protection(config, runtime)
        """Of the whole process."""

    @property
    def wired(self) -> WiredStore:
        """What runs in it, once the directory is taken."""
        assert self._wired is not None
        return self._wired

    @property
    def own(self) -> OwnCluster:
        """The cluster of one that is alone, once the directory is taken."""
        assert self._own is not None
        return self._own

    @property
    def endpoint(self) -> Endpoint:
        """Where clients find it."""
        return self._config.advertised("segmentstore", self._port)

    async def open(self, on_taken_over: OnTakenOver) -> None:
        """Take the directory and accept connections: their requests are refused until containers run.

        :meth:`stop` has to follow, whether or not it succeeds. ``on_taken_over``: see :class:`OwnCluster`.

        Raises:
            DirectoryLockedError: another process serves this directory; the message names it.
            PreconditionError: this server is alone, and the directory is that of a cluster.
            DataCorruptionError: something that the directory had is missing.
            InvalidArgumentError: too few files can be opened, or users, token key or certificate are bad.
            OSError: the address is taken, or none of this machine; the message names the option to change.
        """
        config, protection = self._config, self.protection
        self._exit.push_async_callback(protection.close)
        protection.load()
        self._use(await self._take_directory(), on_taken_over)
        if config.ready_file is not None:
            # Not without the lock: until then the file may be that of a running server.
            remove_ready_file(config.ready_file)
        protection.complete(None if config.in_memory else config.data_dir)
        with naming_port("segmentstore_port", config.host, config.segmentstore_port):
            self._port = await self.wired.listen(
                config.host, config.segmentstore_port, protection.token_key, protection.tls
            )

    def take(self, on_taken_over: OnTakenOver = lambda _: None) -> None:
        """Take the directory alone, for a tool that mends its data: nobody can connect.

        Raises as :meth:`open`, which does the same first. :meth:`stop` has to follow.
        """
        self._use(take_directory(self._config, self._runtime, of_cluster=True), on_taken_over)

    async def _take_directory(self) -> TakenDirectory:
        if self._cluster is None:
            return take_directory(self._config, self._runtime)
        return await take_shared_directory(
            self._cluster.facts, self._runtime, self._cluster.where, self._config.data_dir
        )

    def _use(self, directory: TakenDirectory, on_taken_over: OnTakenOver) -> None:
        config, seat = self._config, self._cluster
        cluster: GivenContainers
        if seat is None:
            cluster = self._own = OwnCluster(directory.containers, self._runtime, on_taken_over)
        else:
            cluster = seat.containers
        self._exit.callback(self._release, directory)
        planned = directory.containers if seat is None else seat.planned
        self._advise_memory(planned)
        wired = self._wired = WiredStore(
            config,
            self._runtime,
            directory.containers,
            self._plan_descriptors(planned),
            directory.store,
            cluster,
        )
        self._exit.push_async_callback(wired.stop)

    async def start(self) -> None:
        """Recover what its cluster gives it at the start. Raises as :meth:`WiredStore.start`."""
        await self.wired.start(self.endpoint)

    async def stop(self) -> None:
        """Stop everything that runs, in reverse order. Idempotent."""
        await self._exit.aclose()

    @property
    def is_stalled(self) -> bool:
        """Whether a thread could not be ended by :meth:`stop`: the process has to exit without it."""
        return self._wired is not None and self._wired.is_stalled

    def _release(self, directory: TakenDirectory) -> None:
        """Release the directory, unless a thread may still write to a log: the system does it then."""
        if self._wired is None or not self._wired.log_is_stalled:
            directory.release()

    def _plan_descriptors(self, containers: int) -> DescriptorPlan:
        config, limit = self._config, find_limit()
        wanted = config.connections_max
        planned = plan_descriptors(
            limit, containers, wanted, config.chunk_threads, config.chunk_files.descriptors_max
        )
        if planned.connections_max <= wanted // 2:
            _logger.warning(
                "the system lets this process open %d files: %d connections at a time instead of %d",
                limit,
                planned.connections_max,
                wanted,
            )
        return planned

    def _advise_memory(self, containers: int) -> None:
        wanted = self._config.cache_bytes_wanted(containers)
        if wanted > self._config.cache_bytes:
            _logger.warning(
                "cache_bytes = %d is little for %d containers under load at the same time: set %d or more",
                self._config.cache_bytes,
                containers,
                wanted,
            )
