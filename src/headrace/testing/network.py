"""A network in memory that does to connections what networks, kernels and operators do.

Fault model:

* **Delay**: every piece of a stream takes its own time; pieces of one direction keep their order (it is TCP).
* **Cuts**: what was written at once arrives in pieces of any size, several writes arrive as one.
* **Dropped connections**: by chance or on demand. What was in flight arrives up to some point, then each end
  gets ``ConnectionResetError`` at its own time. The sender never knows how much arrived.
* **Clogs and partitions**: from one host to another nothing moves until the fault ends; then everything
  comes, late and in order. An end whose data is stalled gets ``TimeoutError``; one that only listens gets
  nothing.
* **A killed process**: its peers see the end of the stream or a reset, after what was in flight.
* **A machine without power**: silence. A sender to it times out; after it is back, it answers with a reset.
* **Slow readers**: data waits in a bounded window; then the sender's ``pause_writing`` is called.
* **Buffers are not copied** by ``write`` before they are sent, as with uvloop and later asyncios: a change of
  one that was handed over is sent.

Why a program must survive exactly this: all of it happens between any two machines within a year. Not
modelled: lost, doubled or changed bytes within a living connection; TCP does not do that.

Programs use it through the loop: ``create_server`` and ``create_connection`` (hence
``asyncio.start_server`` and ``open_connection``). A host is named by its simulated name; loopback names
mean the host of the caller.
"""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Callable
from contextvars import Context, copy_context
from dataclasses import dataclass
from typing import Any, Final, Self

from headrace.runtime.entropy import SeededEntropy
from headrace.testing.connection import SimulatedSocket, SimulatedTransport, connect_pair
from headrace.testing.loop import SimulatedLoop
from headrace.testing.network_config import NetworkConfig
from headrace.testing.process import CURRENT_PROCESS, SimulatedProcess, current_host
from headrace.testing.trace import Trace

_HERE: Final = frozenset({None, "", "127.0.0.1", "localhost", "::1", "0.0.0.0", "::"})  # noqa: S104 - names, not binds

_PORT_FIRST: Final = 40_000

#: Seconds between attempts to open a connection, doubled each time, as kernels do.
_CONNECT_RETRY_S: Final = 1.0


@dataclass(slots=True)
class NetworkStatistics:
    """Gauges of now and counts since the start."""

    connections_open: int = 0
    connections_made: int = 0
    connections_dropped: int = 0
    bytes_arrived: int = 0
    blocked: int = 0


class SimulatedNetwork:
    """All links of a simulation."""

    def __init__(
        self,
        loop: SimulatedLoop,
        entropy: SeededEntropy,
        config: NetworkConfig | None,
        trace: Trace,
    ) -> None:
        self.loop = loop
        self.entropy = entropy
        self.config = NetworkConfig() if config is None else config
        self.trace = trace
        self.context: Context = Context()
        """In which the network's own callbacks run: outside of every process."""
        self._listeners: dict[tuple[str, int], SimulatedServer] = {}
        self._transports: dict[SimulatedTransport, None] = {}
        self._watched: dict[SimulatedProcess, None] = {}
        self._blocked: dict[tuple[str, str], None] = {}
        self._without_power: dict[str, None] = {}
        self._port_next = _PORT_FIRST
        self._statistics = NetworkStatistics()

    # ---- what a test does to it

    def block(self, source: str, target: str) -> None:
        """Let nothing move from one host to another."""
        self._blocked[source, target] = None
        self.trace.add("network", "block", source=source, target=target)

    def unblock(self, source: str, target: str) -> None:
        """Take a block back: what waits arrives. Harmless if there is none."""
        self._blocked.pop((source, target), None)
        self.trace.add("network", "unblock", source=source, target=target)
        self._wake()

    def partition(self, some: list[str], rest: list[str]) -> None:
        """Let nothing move between two groups of hosts, in either direction."""
        for one in some:
            for other in rest:
                self.block(one, other)
                self.block(other, one)

    def heal(self) -> None:
        """Take every block back."""
        for source, target in list(self._blocked):
            self.unblock(source, target)

    def clog(self, source: str, target: str, seconds: float) -> None:
        """Block one direction for a while."""
        self.block(source, target)
        ends = self.loop.machine_time() + seconds
        self.loop.call_at_machine_time(ends, self.unblock, source, target, context=self.context)

    def drop_connections(self, host: str, other: str | None = None) -> int:
        """Drop the connections between two hosts, or all of one, and return how many there were."""
        pairs = [
            transport
            for transport in self._transports
            if transport.host == host and (other is None or transport.peer_host == other)
        ]
        for transport in pairs:
            transport.drop()
        return len(pairs)

    def switch_off(self, host: str) -> None:
        """The machine lost its power: from now on it is silent."""
        self._without_power[host] = None

    def switch_on(self, host: str) -> None:
        """The machine is back; it knows nothing of its old connections."""
        self._without_power.pop(host, None)
        self._wake()

    # ---- what the loop asks for

    def listen(
        self, factory: Callable[[], asyncio.BaseProtocol], host: Any, port: int | None
    ) -> SimulatedServer:
        """Open a port of the caller's host.

        Raises:
            OSError: the port is in use, or the address is another host's.
        """
        here = current_host()
        if host not in _HERE and host != here:
            raise OSError(errno.EADDRNOTAVAIL, os.strerror(errno.EADDRNOTAVAIL), str(host))
        port = port or self._take_port()
        if (here, port) in self._listeners:
            raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE), f"{here}:{port}")
        server = SimulatedServer(self, factory, here, port)
        self._listeners[here, port] = server
        self._watch(CURRENT_PROCESS.get())
        return server

    async def connect(
        self, factory: Callable[[], asyncio.BaseProtocol], host: Any, port: int
    ) -> tuple[SimulatedTransport, asyncio.BaseProtocol]:
        """Open a connection from the caller's host.

        Raises:
            OSError: refused, or no answer within ``connect_timeout_s``.
        """
        here = current_host()
        target = here if host in _HERE else str(host)
        await self._reach(here, target, port)
        server = self._listeners.get((target, port))
        if server is None:
            raise ConnectionRefusedError(
                errno.ECONNREFUSED, os.strerror(errno.ECONNREFUSED), f"{target}:{port}"
            )
        self._watch(CURRENT_PROCESS.get())
        near, far = connect_pair(
            self, (here, self._take_port()), (target, port), copy_context(), server.context
        )
        self._statistics.connections_made += 1
        self.trace.add("network", "connect", source=f"{here}:{near.port}", target=f"{target}:{port}")
        protocol = factory()
        near.begin(protocol)
        at = self.loop.machine_time() + self.delay_s()
        self.loop.call_at_machine_time(at, server.accept, far, context=server.context)
        return near, protocol

    async def _reach(self, source: str, target: str, port: int) -> None:
        """Wait for a packet to go there and one to return."""
        deadline = self.loop.time() + self.config.connect_timeout_s
        pause_s = _CONNECT_RETRY_S
        while True:
            await asyncio.sleep(self.delay_s())
            if not self.is_blocked(source, target):
                await asyncio.sleep(self.delay_s())
                if not self.is_blocked(target, source):
                    return
            if self.loop.time() + pause_s > deadline:
                raise TimeoutError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT), f"{target}:{port}")
            await asyncio.sleep(pause_s)
            pause_s *= 2

    # ---- what connections ask for

    def delay_s(self, count: int = 0) -> float:
        """Return the seconds that ``count`` bytes take this time."""
        spread = self.config.delay_max_s - self.config.delay_min_s
        return self.config.delay_min_s + spread * self.entropy.random() + count * self.config.second_per_byte

    def is_blocked(self, source: str, target: str) -> bool:
        """Say whether a packet between these hosts is blocked or meets a machine without power."""
        return (source, target) in self._blocked or target in self._without_power

    def is_silent(self, host: str) -> bool:
        """Say whether the machine has no power."""
        return host in self._without_power

    def draws_drop(self) -> bool:
        """Let chance decide whether a connection drops."""
        return self.config.drop_chance > 0 and self.entropy.random() < self.config.drop_chance

    def count_arrived(self, count: int) -> None:
        self._statistics.bytes_arrived += count

    def count_drop(self) -> None:
        self._statistics.connections_dropped += 1

    def add(self, transport: SimulatedTransport) -> None:
        """Remember one end of a connection until it is forgotten."""
        self._transports[transport] = None

    def forget(self, transport: SimulatedTransport) -> None:
        self._transports.pop(transport, None)

    def stop_listening(self, server: SimulatedServer) -> None:
        """Close a port. Harmless if it is closed."""
        if self._listeners.get((server.host, server.port)) is server:
            del self._listeners[server.host, server.port]

    def statistics(self) -> NetworkStatistics:
        self._statistics.connections_open = len(self._transports) // 2
        self._statistics.blocked = len(self._blocked)
        return self._statistics

    # ---- inside

    def _take_port(self) -> int:
        self._port_next += 1
        return self._port_next

    def _wake(self) -> None:
        for transport in list(self._transports):
            transport.resume_arrivals()

    def _watch(self, process: SimulatedProcess | None) -> None:
        if process is not None and process not in self._watched:
            self._watched[process] = None
            process.on_kill(lambda: self._on_kill(process))

    def _on_kill(self, process: SimulatedProcess) -> None:
        self._watched.pop(process, None)
        for server in list(self._listeners.values()):
            if server.process is process:
                self.stop_listening(server)
        for transport in list(self._transports):
            if transport.process is process:
                transport.die()


class SimulatedServer(asyncio.AbstractServer):
    """A listening port. ``wait_closed`` waits for its connections too, as asyncio does from 3.12 on."""

    def __init__(
        self, network: SimulatedNetwork, factory: Callable[[], asyncio.BaseProtocol], host: str, port: int
    ) -> None:
        self.host = host
        self.port = port
        self.context = copy_context()
        self.process = CURRENT_PROCESS.get()
        self._network = network
        self._factory = factory
        self._serving = True
        self._active: dict[SimulatedTransport, None] = {}
        self._idle: list[asyncio.Future[Any]] = []

    @property
    def sockets(self) -> tuple[SimulatedSocket, ...]:
        return (SimulatedSocket((self.host, self.port)),) if self._serving else ()

    def accept(self, transport: SimulatedTransport) -> None:
        """Called in the server's process for each connection."""
        if not self._serving:
            transport.drop()
            return
        self._active[transport] = None
        transport.begin(self._factory(), on_end=self._on_end)

    def close(self) -> None:
        self._serving = False
        self._network.stop_listening(self)
        self._settle()

    def close_clients(self) -> None:
        for transport in list(self._active):
            transport.close()

    def abort_clients(self) -> None:
        for transport in list(self._active):
            transport.abort()

    async def wait_closed(self) -> None:
        if self._serving or self._active:
            idle = self._network.loop.create_future()
            self._idle.append(idle)
            await idle

    def get_loop(self) -> asyncio.AbstractEventLoop:
        return self._network.loop

    def is_serving(self) -> bool:
        return self._serving

    async def start_serving(self) -> None:
        """It does already."""

    async def serve_forever(self) -> None:
        try:
            await self._network.loop.create_future()
        finally:
            self.close()
            await self.wait_closed()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        self.close()
        await self.wait_closed()

    def _on_end(self, transport: SimulatedTransport) -> None:
        self._active.pop(transport, None)
        self._settle()

    def _settle(self) -> None:
        if self._serving or self._active:
            return
        idle, self._idle = self._idle, []
        for future in idle:
            if not future.done():
                future.set_result(None)
