"""The standalone server: a segment store and a controller on one loop, with a coordinator in memory.

Order of start: the directory and the listener of the segment store, REST (so that its health can be asked),
the containers, the controller (it finishes what a former one began), gRPC, and only then the ready file: who
finds it may append. Stopping is the reverse order.
"""

from __future__ import annotations

from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass

from headrace.controller.segments.remote.watched_locator import WatchedLocator
from headrace.processes import serving
from headrace.processes.beside_store import BesideStore
from headrace.processes.config import StandaloneConfig
from headrace.processes.controller import ServedController
from headrace.processes.segment_store import ServedStore
from headrace.processes.taken_over import OnTakenOver
from headrace.processes.web_port import WebPort
from headrace.runtime.context import Runtime, system_runtime


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

    def __str__(self) -> str:
        return f"controller {self.controller}, segment store {self.segmentstore}, rest {self.rest}"


class StandaloneServer:
    """One server. Start it once, stop it once."""

    def __init__(self, config: StandaloneConfig, runtime: Runtime | None = None) -> None:
        """Raises InvalidArgumentError if settings contradict each other."""
        self.config = config
        self._runtime = runtime or system_runtime()
        self.store = ServedStore(config, self._runtime)
        self._exit = AsyncExitStack()

    async def start(self, on_taken_over: OnTakenOver = lambda _: None) -> Addresses:
        """Start everything; whatever was started is stopped again if a later part fails.

        ``on_taken_over``: called once other owners have all containers: nothing is left to serve.

        Raises:
            DirectoryLockedError: another process serves this directory; the message names it.
            DataCorruptionError: a log or its storage is damaged; the message names file and offset.
            InvalidArgumentError: too few files can be opened, or users, token key or certificate are bad.
            OSError: an address is taken, or none of this machine; the message names the option to change.
        """
        store, protection = self.store, self.store.protection
        async with AsyncExitStack() as stack:
            stack.push_async_callback(store.stop)
            await store.open(on_taken_over)
            controller = ServedController(
                self.config,
                self._runtime,
                store.wired.store,
                WatchedLocator(store.own.placement, store.wired.registry.container_count),
                store.own.coordinator,
                protection,
                BesideStore(store.wired),
                [store.wired],
            )
            stack.push_async_callback(controller.stop)
            rest = WebPort(self.config, protection, controller.make_application)
            stack.push_async_callback(rest.stop)
            await rest.start()
            await store.start()
            await controller.recover()
            await controller.serve()
            store.wired.report_loads(controller.report_loads, self.config.scaling)
            protection.advise()
            self._exit = stack.pop_all()
        return Addresses(
            str(controller.grpc_endpoint),
            str(store.endpoint),
            str(rest.endpoint),
            protection.tls is not None,
        )

    async def stop(self) -> None:
        """Stop everything that runs, in reverse order. Idempotent."""
        await self._exit.aclose()

    @property
    def is_stalled(self) -> bool:
        """Whether a thread could not be ended by :meth:`stop`: the process has to exit without it."""
        return self.store.is_stalled


def run(config: StandaloneConfig) -> None:
    """Run a server in this process until a signal stops it; see :func:`serving.run`."""
    serving.run(lambda: StandaloneServer(config))
