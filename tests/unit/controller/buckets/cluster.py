"""Controllers that share buckets through a coordinator with faults, without the rest of a controller."""

import asyncio
from collections import Counter

from headrace.controller.buckets.ownership import Buckets
from headrace.controller.store.layout import permanent_tables
from headrace.model.endpoint import Endpoint
from headrace.runtime.entropy import SeededEntropy
from headrace.testing.coordination_faults import CoordinationFaults, FaultyCoordinator
from headrace.testing.memory_metadata_store import MemoryStore

COUNT = 16


class Recorder:
    """A work that says where it runs, and takes its time to end."""

    name = "recorder"

    def __init__(self, member, log):
        self.member = member
        self.log = log
        self.running = set()

    async def run(self, bucket):
        self.running.add(bucket)
        self.log.append(("begin", self.member, bucket))
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0.05)
            self.running.discard(bucket)
            self.log.append(("end", self.member, bucket))


class Cluster:
    """Members by name, each in a process of its own."""

    def __init__(self, sim, **faults):
        self.sim = sim
        self.coordinator = FaultyCoordinator(sim.entropy, CoordinationFaults(**faults))
        self.store = MemoryStore()
        self.log = []
        self.members = {}
        self.works = {}

    async def start(self, *names):
        for table in permanent_tables(COUNT):
            await self.store.create_table(table)
        await asyncio.gather(*(self.join(name) for name in names))

    async def join(self, name):
        number = len(self.members)
        buckets = Buckets(
            COUNT,
            self.store,
            self.coordinator,
            self.sim.clock,
            SeededEntropy(f"{self.sim.seed}-{name}"),
            Endpoint(name, 9000 + number),
        )
        self.works[name] = Recorder(name, self.log)
        buckets.add(self.works[name])
        self.members[name] = buckets
        await self.sim.host(name).run(buckets.start())

    async def leave(self, name):
        buckets = self.members.pop(name)
        await self.sim.host(name).run(buckets.stop())

    def kill(self, name):
        self.sim.host(name).kill()
        del self.members[name]

    def session_of(self, name):
        """Return the session of a member, as the coordinator sees it."""
        return self.members[name]._session

    async def stop(self):
        for name in [*self.members]:
            await self.leave(name)
        for session in [*self.coordinator.sessions]:
            session.expire()

    def counts(self):
        return sorted(len(buckets.owned()) for buckets in self.members.values())

    def is_shared(self):
        """Whether each bucket has one owner, whose work runs, and shares are even."""
        owned = Counter(bucket for buckets in self.members.values() for bucket in buckets.owned())
        least = COUNT // len(self.members)
        return (
            owned == dict.fromkeys(range(COUNT), 1)
            and all(least <= count <= least + 1 for count in self.counts())
            and all(self.works[name].running == {*each.owned()} for name, each in self.members.items())
        )

    async def shared(self, within_s=60):
        async with asyncio.timeout(within_s):
            while not self.is_shared():  # noqa: ASYNC110 - time is virtual
                await asyncio.sleep(0.01)
