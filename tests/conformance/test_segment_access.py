import pytest

from headrace.model.segment_access import SegmentAccess
from headrace.segmentstore.store import SegmentStore
from headrace.testing.conformance.segment_access import VERBS, SegmentAccessContract
from tests.remote_stores import TwoStores, calling, listening, remote_segments
from tests.unit.controller.segment_stores import FakeSegmentStores


class TestFakeSegmentStores(SegmentAccessContract):
    async def make(self) -> SegmentAccess:
        return FakeSegmentStores()


class TestSegmentStore(SegmentAccessContract):
    @pytest.fixture(autouse=True)
    async def _store(self):
        async with listening() as (data_plane, _):
            self.store = data_plane.store
            yield

    async def make(self) -> SegmentAccess:
        return self.store

    def test_every_verb_says_what_it_does(self):
        assert [verb for verb in VERBS if not getattr(SegmentStore, verb).__doc__] == []


class TestRemoteSegments(SegmentAccessContract):
    @pytest.fixture(autouse=True)
    async def _store(self):
        async with remote_segments() as self.segments:
            yield

    async def make(self) -> SegmentAccess:
        return self.segments


class TestRemoteSegmentsOfTwoStores(SegmentAccessContract):
    @pytest.fixture(autouse=True)
    async def _stores(self):
        async with (
            listening() as (_, one),
            listening() as (_, two),
            calling(TwoStores([one, two])) as self.segments,
        ):
            yield

    async def make(self) -> SegmentAccess:
        return self.segments
