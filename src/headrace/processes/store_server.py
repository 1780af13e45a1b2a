"""A segment store that is a process by itself: nothing runs beside it but what shows how it is.

All containers of its directory are its own. Order of start: the directory and the listener of the segment
store, the web port (so that its health can be asked), the containers, and only then the ready file. Stopping
is the reverse order.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass

from headrace import __version__
from headrace.errors import InvalidArgumentError
from headrace.processes import serving
from headrace.processes.beside_store import BesideStore
from headrace.processes.config import SegmentStoreConfig
from headrace.processes.segment_store import ServedStore
from headrace.processes.taken_over import OnTakenOver
from headrace.processes.web_port import WebPort
from headrace.runtime.context import Runtime, system_runtime
from headrace.web.server import Application


@dataclass(slots=True)
class StoreAddresses:
    """Where clients find a running segment store, each ``host:port``."""

    segmentstore: str
    rest: str
    tls: bool = False
    """Whether both are encrypted."""

    def as_dict(self) -> dict[str, str | bool]:
        return asdict(self)

    def __str__(self) -> str:
        return f"segment store {self.segmentstore}, rest {self.rest}"


def check_token_key(config: SegmentStoreConfig) -> None:
    """Raises InvalidArgumentError if a key for tokens is missing."""
    if config.auth.enabled and config.auth.token_key is None:
        raise InvalidArgumentError(
            "with users a segment store needs the key of the tokens that clients show, and makes none by "
            "itself: name the file that its controller signs with, setting auth.token_key "
            "(HEADRACE_AUTH__TOKEN_KEY)"
        )


class SegmentStoreServer:
    """One segment store. Start it once, stop it once."""

    def __init__(self, config: SegmentStoreConfig, runtime: Runtime | None = None) -> None:
        """Raises InvalidArgumentError if settings contradict each other, or a key for tokens is missing."""
        check_token_key(config)
        self.config = config
        self.store = ServedStore(config, runtime or system_runtime())
        self.web = WebPort(config, self.store.protection, self._make_application)
        self._exit = AsyncExitStack()

    async def start(self, on_taken_over: OnTakenOver = lambda _: None) -> StoreAddresses:
        """Start everything; whatever was started is stopped again if a later part fails.

        ``on_taken_over``: called once other owners have all containers: nothing is left to serve. Raises as
        :meth:`ServedStore.open`, :meth:`WebPort.start` and :meth:`ServedStore.start`.
        """
        store, web, protection = self.store, self.web, self.store.protection
        async with AsyncExitStack() as stack:
            stack.push_async_callback(store.stop)
            await store.open(on_taken_over)
            stack.push_async_callback(web.stop)
            await web.start()
            await store.start()
            protection.advise()
            self._exit = stack.pop_all()
        return StoreAddresses(str(store.endpoint), str(web.endpoint), protection.tls is not None)

    def _make_application(self, hosts: Iterable[str]) -> Application:
        from headrace.web.probes import probe_application  # late, with the web libraries

        gatekeeper, wired = self.store.protection.gatekeeper, self.store.wired
        return probe_application([wired], BesideStore(wired), __version__, gatekeeper, hosts)

    async def stop(self) -> None:
        """Stop everything that runs, in reverse order. Idempotent."""
        await self._exit.aclose()

    @property
    def is_stalled(self) -> bool:
        """Whether a thread could not be ended by :meth:`stop`: the process has to exit without it."""
        return self.store.is_stalled


def run(config: SegmentStoreConfig) -> None:
    """Run a segment store in this process until a signal stops it; see :func:`serving.run`."""
    serving.run(lambda: SegmentStoreServer(config))
