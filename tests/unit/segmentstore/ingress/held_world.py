"""Connections to a real container on a log that a test holds up."""

from headrace.runtime.entropy import SeededEntropy
from headrace.segmentstore.store import SegmentStore
from tests.unit.segmentstore.container.container_bench import Bench, HeldWal
from tests.unit.segmentstore.container.test_fenced_owner import Registry
from tests.unit.segmentstore.ingress.world import SEGMENT, FakeHome


class HeldWorld:
    def __init__(self):
        self.wals = []
        self.bench = Bench()
        self.bench.make_wal = self.make_wal

    def make_wal(self, *args):
        self.wals.append(HeldWal(*args))
        return self.wals[-1]

    async def start(self):
        self.container = await self.bench.start()
        self.store = SegmentStore(Registry(self.container), SeededEntropy(1))
        await self.store.create_segment(SEGMENT)
        self.home = FakeHome(self.store)
        return self

    async def stop(self):
        self.wal.go_on()
        await self.home.supervisor.stop()
        await self.bench.stop()

    @property
    def wal(self):
        return self.wals[-1]
