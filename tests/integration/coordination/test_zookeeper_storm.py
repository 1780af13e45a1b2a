"""Sessions with ZooKeeper under a seeded storm of faults, judged by what each of them was told."""

import asyncio
import random

import pytest

from headrace.coordination.node import Node
from headrace.errors import MetadataConflictError, SessionExpiredError, UnknownOutcomeError, UnreachableError
from tests.effort import seeds
from tests.zookeeper_cluster import Cluster

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(120)]

INCREMENTS = 40


class Counter:
    """A member that adds to a node under its version, looks up what it does not know, and opens again."""

    def __init__(self, coordinator, name):
        self.coordinator = coordinator
        self.name = name
        self.session = None
        self.added = []
        self.unsure = []
        self.expired = []

    async def run(self, count):
        while len(self.added) < count:
            try:
                if self.session is None:
                    self.session = await self.coordinator.open()
                await self._add(f"{self.name}-{len(self.added)}-{len(self.unsure)}-{len(self.expired)}")
            except UnreachableError:
                continue
            except SessionExpiredError:
                await self.session.close()
                self.session = None
            except UnknownOutcomeError:
                continue

    async def _add(self, mark):
        found = await self.session.read("log")
        try:
            await self.session.write("log", found.data + mark.encode() + b",", found.version)
        except MetadataConflictError:
            return
        except SessionExpiredError:
            self.expired.append(mark)
            raise
        except UnknownOutcomeError:
            self.unsure.append(mark)
            found = await self.session.read("log")
            if mark not in marks(found):
                return
            self.unsure.remove(mark)
        self.added.append(mark)


def marks(node):
    return node.data.decode().split(",")[:-1]


async def make_faults(entropy, proxies):
    while True:
        await asyncio.sleep(0.05 * entropy.random())
        proxy = entropy.choice(proxies)
        match entropy.randrange(5):
            case 0:
                proxy.cut()
            case 1:
                proxy.loses_answers = True
                await asyncio.sleep(0.05 * entropy.random())
                proxy.cut()
                proxy.loses_answers = False
            case 2:
                proxy.block()
                await asyncio.sleep(0.2 * entropy.random())
                proxy.flow()
            case 3:
                proxy.delay_s = 0.01 * entropy.random()
            case 4:
                if proxy.sessions and entropy.random() < 0.3:
                    await proxy.expire(max(proxy.sessions))


async def follow(session, done):
    """Return what the last look at the node showed; a look follows each item of a watch and nothing else."""
    async for _ in session.watch("log"):
        found = await session.read("log")
        if b"end" in found.data:
            done.set_result(found)
            return


@pytest.mark.parametrize("seed", seeds(2))
async def test_changes_are_what_their_callers_were_told(zookeeper, seed):
    entropy = random.Random(seed)
    async with Cluster(zookeeper) as cluster:
        proxies = [await cluster.proxy() for _ in range(3)]
        steady = await cluster.open(session_s=10.0)
        await steady.create("log", b"")
        watcher = await cluster.open(proxies[2].port, session_s=20.0)
        seen = asyncio.get_running_loop().create_future()
        counters = [
            Counter(cluster.coordinator(proxy.port), name)
            for proxy, name in zip(proxies[:2], "ab", strict=True)
        ]
        following = asyncio.ensure_future(follow(watcher, seen))
        faults = asyncio.ensure_future(make_faults(entropy, proxies[:2]))
        cuts = asyncio.ensure_future(make_cuts(entropy, proxies[2]))
        await asyncio.gather(*(counter.run(INCREMENTS) for counter in counters))
        for task in (faults, cuts):
            assert task.cancel(), "the faults ended"
        await asyncio.gather(faults, cuts, return_exceptions=True)
        for proxy in proxies:
            proxy.flow()
            proxy.loses_answers = False
        while True:
            found = await steady.read("log")
            try:
                await steady.write("log", found.data + b"end,", found.version)
            except MetadataConflictError:
                continue
            break
        assert await seen == await steady.read("log") == Node(found.data + b"end,", found.version + 1)
        await following
    happened = marks(found)
    assert len(happened) == len(set(happened)) == found.version
    for counter in counters:
        own = [mark for mark in happened if mark.startswith(counter.name)]
        assert set(counter.added) <= set(own) <= {*counter.added, *counter.unsure}
        assert not set(counter.expired) & set(own)


async def make_cuts(entropy, proxy):
    while True:
        await asyncio.sleep(0.1 * entropy.random())
        proxy.cut()


@pytest.mark.parametrize("seed", seeds(2))
async def test_a_lease_is_never_valid_when_the_session_has_ended(zookeeper, seed):
    entropy = random.Random(seed)
    async with Cluster(zookeeper) as cluster:
        proxy = await cluster.proxy()
        coordinator, steady = cluster.coordinator(proxy.port), await cluster.open(session_s=10.0)
        await steady.create("m", b"")

        async def block():
            while True:
                await asyncio.sleep(0.3 * entropy.random())
                proxy.block()
                await asyncio.sleep(2.0 * entropy.random())
                if entropy.random() < 0.5:
                    proxy.cut()
                proxy.flow()

        faults = asyncio.ensure_future(block())
        ends = 0
        while ends < 3:
            try:
                session = await coordinator.open()
                path = await session.create("m/n", b"", ephemeral=True, sequential=True)
            except (UnreachableError, UnknownOutcomeError, SessionExpiredError):
                continue
            async for _ in steady.watch(path):
                if await steady.read(path) is None:
                    break
            assert not session.lease.is_valid
            ends += 1
        assert faults.cancel(), "the faults ended"
        proxy.flow()
