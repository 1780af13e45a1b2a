from headrace.controller.store.contract import MetadataStore
from headrace.controller.store.memory import MemoryStore
from headrace.controller.store.tables import TableStore
from headrace.runtime.entropy import SeededEntropy
from headrace.testing.conformance.metadata_store import MetadataStoreContract
from headrace.testing.segment_stores import FakeSegmentStores


class TestMemoryStore(MetadataStoreContract):
    async def make(self) -> MetadataStore:
        return MemoryStore()


class TestTableStore(MetadataStoreContract):
    async def make(self) -> MetadataStore:
        return TableStore(FakeSegmentStores(), SeededEntropy(1))
