import pytest

from headrace.model.segment_access import SegmentAccess
from headrace.processes.config import StandaloneConfig
from headrace.processes.wired_store import WiredStore
from headrace.runtime.context import system_runtime
from headrace.segmentstore.store import SegmentStore
from headrace.testing.conformance.segment_access import VERBS, SegmentAccessContract
from tests.unit.controller.segment_stores import FakeSegmentStores


class TestSegmentStore(SegmentAccessContract):
    @pytest.fixture(autouse=True)
    async def _data_plane(self):
        self.data_plane = WiredStore(StandaloneConfig(in_memory=True), system_runtime(), 1)
        await self.data_plane.start()
        yield
        await self.data_plane.stop()

    async def make(self) -> SegmentAccess:
        return self.data_plane.store

    def test_every_verb_says_what_it_does(self):
        assert [verb for verb in VERBS if not getattr(SegmentStore, verb).__doc__] == []


class TestFakeSegmentStores(SegmentAccessContract):
    async def make(self) -> SegmentAccess:
        return FakeSegmentStores()
