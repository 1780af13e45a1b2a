"""Sessions with the ZooKeeper server of the tests, each test below a root of its own, through a proxy."""

import itertools
from contextlib import AsyncExitStack

from headrace.coordination.coordinators import make_coordinator
from headrace.coordination.location import CoordinatorLocation
from headrace.coordination.zookeeper.config import ZooKeeperConfig
from headrace.runtime.blocking import SystemThreads
from headrace.testing.zookeeper_faults import FaultyProxy

_roots = itertools.count()


class Cluster:
    """Nodes below one new root, and coordinators that reach them; closes what they opened."""

    def __init__(self, server):
        self.server = server
        self.root = f"test-{next(_roots)}"
        self._sessions = []
        self._proxies = AsyncExitStack()

    async def __aenter__(self):
        return self

    async def __aexit__(self, *_):
        for session in self._sessions:
            await session.close()
        await self._proxies.aclose()

    async def proxy(self, **options):
        return await self._proxies.enter_async_context(FaultyProxy(self.server.port, **options))

    def coordinator(self, *ports, session_s=1.0, margin_s=0.3, host="127.0.0.1", **options):
        """Return one that reaches the server through one of ``ports``, or directly."""
        servers = ",".join(f"{host}:{port}" for port in ports or [self.server.port])
        location = CoordinatorLocation.parse(f"zk://{servers}/{self.root}")
        config = ZooKeeperConfig(session_s=session_s, margin_s=margin_s, **options)
        return _Closing(make_coordinator(location, SystemThreads(), config), self._sessions)

    async def open(self, *ports, **options):
        return await self.coordinator(*ports, **options).open()


async def first_session(port):
    """Have one session, and end it."""
    location = CoordinatorLocation.parse(f"zk://127.0.0.1:{port}/first")
    coordinator = make_coordinator(location, SystemThreads(), ZooKeeperConfig(session_s=20.0, margin_s=1.0))
    session = await coordinator.open()
    await session.close()


class _Closing:
    def __init__(self, inner, sessions):
        self._inner = inner
        self._sessions = sessions

    async def open(self):
        session = await self._inner.open()
        self._sessions.append(session)
        return session
