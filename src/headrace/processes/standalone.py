"""The standalone server: starts every part in order, says when it can be used, stops orderly on a signal.

Order of start: lock of the data directory, the segment store's listener, REST (so that its health can be
asked), containers (each recovers from its log, and waits for space if the disk is full), the controller (it
finishes what a former one began), gRPC, and only then the ready file: a process that finds it may append.
Stopping is the reverse order. A kill at any moment is safe: starting is always recovery.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass
from typing import Final

from headrace.data_directory.record import CONTAINERS_MAX
from headrace.data_directory.taken_directory import TakenDirectory, take_directory
from headrace.errors import EXIT_CODES, FencedOutError, InvalidArgumentError, OwnershipError
from headrace.processes.config import StandaloneConfig
from headrace.processes.controller import ControlPlane
from headrace.processes.descriptor_plan import DescriptorPlan, plan_descriptors
from headrace.processes.exposure import find_exposure
from headrace.processes.port_errors import naming_port
from headrace.processes.ready_file import remove_ready_file, write_when_there_is_space
from headrace.processes.segment_store import DataPlane
from headrace.runtime.collector import tune_collector
from headrace.runtime.context import Runtime, system_runtime
from headrace.runtime.descriptors import find_limit, raise_limit
from headrace.runtime.loops import run as run_loop
from headrace.runtime.loops import share_interpreter
from headrace.runtime.supervisor import Supervisor
from headrace.security.certificates import ServerCertificates
from headrace.security.gatekeeper import Gatekeeper, make_gatekeeper
from headrace.security.token_key import keep_token_key, load_token_key, make_token_key
from headrace.security.tokens import TokenKey

_logger = logging.getLogger(__name__)

_PORT_MAX: Final = 65535


@dataclass(slots=True)
class Addresses:
    """Where clients find a running server, each ``host:port``."""

    controller: str
    segmentstore: str
    rest: str
    tls: bool = False
    """Whether all of them are encrypted."""

    def as_dict(self) -> dict[str, str | bool]:
        return asdict(self)


class StandaloneServer:
    """One server. Start it once, stop it once."""

    def __init__(self, config: StandaloneConfig, runtime: Runtime | None = None) -> None:
        if config.containers is not None and not 1 <= config.containers <= CONTAINERS_MAX:
            raise InvalidArgumentError(f"{config.containers} containers: 1 to {CONTAINERS_MAX}")
        for port in (config.controller_port, config.segmentstore_port, config.rest_port):
            if not 0 <= port <= _PORT_MAX:
                raise InvalidArgumentError(f"{port} is no port: 1 to {_PORT_MAX}, or 0 for any free one")
        config.check()
        self._config = config
        self._runtime = runtime or system_runtime()
        self.on_taken_over: Callable[[FencedOutError], None] = lambda _: None
        """Called once other owners have all containers: nothing is left to serve."""
        self._exit = AsyncExitStack()
        self._data_plane: DataPlane | None = None

    async def start(self) -> Addresses:
        """Start everything; whatever was started is stopped again if a later part fails.

        Raises:
            DirectoryLockedError: another process serves this directory; the message names it.
            DataCorruptionError: a log or its storage is damaged; the message names file and offset.
            InvalidArgumentError: too few files can be opened, or users, token key or certificate are bad.
            OSError: an address is taken, or none of this machine; the message names the option that chose it.
        """
        config = self._config
        async with AsyncExitStack() as stack:
            gatekeeper = self._know_users(stack)
            token_key = self._given_token_key()
            certificates = self._take_certificates(stack)
            tls = None if certificates is None else certificates.context
            directory = take_directory(config, self._runtime)
            stack.callback(self._release, directory)
            containers = directory.containers
            if config.ready_file is not None:
                # Not without the lock: until then the file may be that of a running server.
                remove_ready_file(config.ready_file)
            if config.auth.enabled and token_key is None:
                token_key = self._own_token_key()
            self._advise_memory(containers)
            limit = find_limit()
            descriptors = plan_descriptors(
                limit,
                containers,
                config.connections_max,
                config.chunk_threads,
                config.chunk_files.descriptors_max,
            )
            data_plane = self._data_plane = DataPlane(
                config, self._runtime, containers, descriptors, directory.store, self._on_containers_lost
            )
            stack.push_async_callback(data_plane.stop)
            with naming_port("segmentstore_port", config.host, config.segmentstore_port):
                segmentstore = await data_plane.listen(config.host, config.segmentstore_port, token_key, tls)
            control_plane = ControlPlane(
                config,
                self._runtime,
                data_plane.store,
                segmentstore,
                data_plane,
                gatekeeper,
                token_key,
                certificates,
            )
            stack.push_async_callback(control_plane.stop)
            with naming_port("rest_port", config.host, config.rest_port):
                await control_plane.start_rest()
            scheme = "http" if tls is None else "https"
            rest = config.advertised("rest", control_plane.rest_port)
            _logger.info("health is served at %s", f"{scheme}://{rest}")
            await data_plane.start()
            await control_plane.start()
            data_plane.report_loads(control_plane.report_load)
            addresses = Addresses(
                str(config.advertised("controller", control_plane.grpc_port)),
                str(config.advertised("segmentstore", segmentstore)),
                str(config.advertised("rest", control_plane.rest_port)),
                tls is not None,
            )
            self._advise_files(limit, descriptors)
            self._advise_protection()
            self._exit = stack.pop_all()
        return addresses

    async def start_data(self) -> DataPlane:
        """Start the containers alone, for a tool that mends their data: nobody can connect.

        Raises as :meth:`start`. :meth:`stop` has to follow.
        """
        config = self._config
        async with AsyncExitStack() as stack:
            directory = take_directory(config, self._runtime)
            stack.callback(self._release, directory)
            descriptors = plan_descriptors(
                find_limit(),
                directory.containers,
                config.connections_max,
                config.chunk_threads,
                config.chunk_files.descriptors_max,
            )
            data_plane = self._data_plane = DataPlane(
                config, self._runtime, directory.containers, descriptors, directory.store
            )
            stack.push_async_callback(data_plane.stop)
            await data_plane.start()
            self._exit = stack.pop_all()
        return data_plane

    def _know_users(self, stack: AsyncExitStack) -> Gatekeeper | None:
        """Load the users, if the server has any: without good ones nothing is touched."""
        if not self._config.auth.enabled:
            return None
        gatekeeper = make_gatekeeper(self._config.auth, self._runtime.threads, self._runtime.entropy)
        stack.push_async_callback(gatekeeper.close)
        return gatekeeper

    def _given_token_key(self) -> TokenKey | None:
        """Raises InvalidArgumentError."""
        auth = self._config.auth
        if not auth.enabled or auth.token_key is None:
            return None
        return load_token_key(self._runtime.filesystem, auth.token_key)

    def _own_token_key(self) -> TokenKey:
        """Raises InvalidArgumentError, OSError."""
        if self._config.in_memory:
            return make_token_key(self._runtime.entropy)
        return keep_token_key(self._runtime.filesystem, self._config.data_dir, self._runtime.entropy)

    def _take_certificates(self, stack: AsyncExitStack) -> ServerCertificates | None:
        """Load the certificates, if there are any, and exchange them whenever they change."""
        if not self._config.tls.enabled:
            return None
        certificates = ServerCertificates(self._config.tls, self._runtime.clock)
        supervisor = Supervisor("certificates")
        stack.push_async_callback(supervisor.stop)
        supervisor.spawn("watch", certificates.watch())
        return certificates

    def _advise_files(self, limit: int | None, planned: DescriptorPlan) -> None:
        wanted = self._config.connections_max
        if planned.connections_max <= wanted // 2:
            _logger.warning(
                "the system lets this process open %d files: %d connections at a time instead of %d",
                limit,
                planned.connections_max,
                wanted,
            )

    def _advise_protection(self) -> None:
        config = self._config
        missing = find_exposure(config.host, encrypts=config.tls.enabled, knows_users=config.auth.enabled)
        if missing is not None:
            _logger.warning("%s", missing)

    def _advise_memory(self, containers: int) -> None:
        wanted = self._config.cache_bytes_wanted(containers)
        if wanted > self._config.cache_bytes:
            _logger.warning(
                "cache_bytes = %d is little for %d containers under load at the same time: set %d or more",
                self._config.cache_bytes,
                containers,
                wanted,
            )

    def _on_containers_lost(self, error: FencedOutError) -> None:
        self.on_taken_over(error)

    def _release(self, directory: TakenDirectory) -> None:
        """Release the directory, unless a thread may still write to a log: the system does it then."""
        if self._data_plane is None or not self._data_plane.log_is_stalled:
            directory.release()

    async def stop(self) -> None:
        """Stop everything that runs, in reverse order. Idempotent."""
        await self._exit.aclose()

    @property
    def is_stalled(self) -> bool:
        """Whether a thread could not be ended by :meth:`stop`: the process has to exit without it."""
        return self._data_plane is not None and self._data_plane.is_stalled


async def serve(config: StandaloneConfig, taken_over: list[FencedOutError] | None = None) -> bool:
    """Run a server until SIGTERM or SIGINT, or until other owners have all of its containers, which is added
    to ``taken_over``; answer whether it left a stalled thread behind.
    """
    loop = asyncio.get_running_loop()
    stopping = asyncio.Event()

    def end(error: FencedOutError) -> None:
        if taken_over is not None:
            taken_over.append(error)
        stopping.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    server = StandaloneServer(config)
    server.on_taken_over = end
    addresses = await _start_until(server, stopping)
    if addresses is None:
        _logger.info("stopped before it was ready")
        return server.is_stalled
    tune_collector()
    try:
        if config.ready_file is not None:
            await write_when_there_is_space(config.ready_file, addresses.as_dict(), stopping)
        where = "in memory only" if config.in_memory else f"data in {config.data_dir}"
        _logger.info(
            "headrace is ready%s: controller %s, segment store %s, rest %s; %s",
            " with TLS" if addresses.tls else "",
            addresses.controller,
            addresses.segmentstore,
            addresses.rest,
            where,
        )
        await stopping.wait()
        _logger.info("stopping")
    finally:
        try:
            if config.ready_file is not None:
                remove_ready_file(config.ready_file)
        finally:
            await server.stop()
    return server.is_stalled


async def _start_until(server: StandaloneServer, stopping: asyncio.Event) -> Addresses | None:
    """Start, or give up and answer None once ``stopping`` is set: a start may wait for space for ever."""
    supervisor = Supervisor("start", lambda _name, _error: None)  # whatever it is, it is raised below
    starting = supervisor.spawn("server", server.start())
    signalled = supervisor.spawn("signal", stopping.wait())
    try:
        await asyncio.wait((starting, signalled), return_when=asyncio.FIRST_COMPLETED)
        return await starting if starting.done() else None
    finally:
        # Once only, and then it has its time: a second cancellation would cut off what stops those started.
        starting.cancel()
        await asyncio.wait((starting,))
        await supervisor.stop()


async def _serve_and_exit(config: StandaloneConfig) -> None:
    taken_over: list[FencedOutError] = []
    if await serve(config, taken_over):
        _logger.warning("the process ends with a stalled call; the next start recovers from the logs")
        for error in taken_over:
            _logger.error("%s", error)
        logging.shutdown()
        # The end of the loop would wait for its tasks, that of the interpreter for its threads.
        os._exit(EXIT_CODES[OwnershipError] if taken_over else 0)
    if taken_over:
        raise taken_over[0]


def run(config: StandaloneConfig) -> None:
    """Run a server in this process until a signal stops it; returns after a clean stop.

    Raises as :meth:`StandaloneServer.start`, and FencedOutError once other owners have all containers.
    """
    share_interpreter()
    raise_limit()
    run_loop(_serve_and_exit(config))
