import pytest

from headrace.controller.store.contract import MetadataStore
from headrace.controller.store.tables import TableStore
from headrace.processes.config import StandaloneConfig
from headrace.processes.wired_store import WiredStore
from headrace.runtime.context import system_runtime
from headrace.runtime.entropy import SeededEntropy
from headrace.testing.conformance.metadata_store import MetadataStoreContract
from headrace.testing.memory_metadata_store import MemoryStore
from tests.remote_stores import remote_segments
from tests.unit.controller.segment_stores import FakeSegmentStores


class TestMemoryStore(MetadataStoreContract):
    async def make(self) -> MetadataStore:
        return MemoryStore()


class TestTableStore(MetadataStoreContract):
    async def make(self) -> MetadataStore:
        return TableStore(FakeSegmentStores(), SeededEntropy(1))


class TestTableStoreOverARealSegmentStore(MetadataStoreContract):
    @pytest.fixture(autouse=True)
    async def _segment_store(self):
        self.data_plane = WiredStore(StandaloneConfig(in_memory=True), system_runtime(), 2)
        await self.data_plane.start()
        yield
        await self.data_plane.stop()

    async def make(self) -> MetadataStore:
        return TableStore(self.data_plane.store, SeededEntropy(1))


class TestTableStoreOverConnections(MetadataStoreContract):
    @pytest.fixture(autouse=True)
    async def _segments(self):
        async with remote_segments() as self.segments:
            yield

    async def make(self) -> MetadataStore:
        return TableStore(self.segments, SeededEntropy(1))
