"""The chunk providers we ship keep the contract."""

import itertools

import pytest

from headrace.runtime.blocking import BlockingPool
from headrace.runtime.entropy import SeededEntropy
from headrace.runtime.filesystem import OsFilesystem
from headrace.storage.metadata.joint_store import JointRowStore
from headrace.storage.providers.files.chunk_threads import ChunkThreads
from headrace.storage.providers.files.filesystem import FilesystemChunkProvider, FilesystemProviderConfig
from headrace.storage.providers.memory import MemoryChunkProvider
from headrace.storage.providers.wrappers.measured import MeasuredChunkProvider
from headrace.storage.providers.wrappers.retrying import RetryingChunkProvider
from headrace.storage.providers.wrappers.throttled import ThrottledChunkProvider
from headrace.storage.providers.wrappers.token_bucket import RequestBudget
from headrace.testing.conformance.chunk_provider import ChunkProviderContract
from headrace.testing.conformance.row_store import RowStoreContract
from headrace.testing.disk import SimulatedDisk
from headrace.testing.filesystem import SimulatedFilesystem
from headrace.testing.memory_row_store import MemoryRowStore
from headrace.testing.object_store_faults import FaultyObjectStore
from headrace.testing.storage_faults import FaultyChunkProvider, FaultyRowStore, fail_reads
from tests.unit.storage.chunks_at_hand import ChunksAtHand


class TestMemoryProvider(ChunkProviderContract):
    @pytest.fixture(autouse=True)
    def _objects(self):
        self.provider = MemoryChunkProvider()

    async def make(self):
        return self.provider


class TestMemoryProviderWithoutAppend(ChunkProviderContract):
    @pytest.fixture(autouse=True)
    def _objects(self):
        self.provider = MemoryChunkProvider(supports_append=False)

    async def make(self):
        return self.provider


class TestMeasuredProvider(ChunkProviderContract):
    @pytest.fixture(autouse=True)
    def _objects(self):
        self.provider = MeasuredChunkProvider(ChunksAtHand(MemoryChunkProvider()))

    async def make(self):
        return self.provider


class TestFaultyProviderWithoutFaults(ChunkProviderContract):
    @pytest.fixture(autouse=True)
    def _objects(self):
        self.provider = FaultyChunkProvider(MemoryChunkProvider())

    async def make(self):
        return self.provider


class TestFaultyProviderWithoutFaultsOrAppend(ChunkProviderContract):
    @pytest.fixture(autouse=True)
    def _objects(self):
        self.provider = FaultyChunkProvider(MemoryChunkProvider(supports_append=False))

    async def make(self):
        return self.provider


class TestFaultyObjectStoreWithoutFaults(ChunkProviderContract):
    @pytest.fixture(autouse=True)
    def _objects(self):
        self.provider = FaultyObjectStore(SeededEntropy(1))

    async def make(self):
        return self.provider


class TestFaultyObjectStoreWithAppend(ChunkProviderContract):
    @pytest.fixture(autouse=True)
    def _objects(self):
        self.provider = FaultyObjectStore(SeededEntropy(1), supports_append=True, page_objects_max=100)

    async def make(self):
        return self.provider


class TestRetryingProvider(ChunkProviderContract):
    @pytest.fixture(autouse=True)
    def _objects(self):
        self.provider = RetryingChunkProvider(MemoryChunkProvider(), timeout_s=60.0)

    async def make(self):
        return self.provider


class TestRetryingProviderOnOneThatFailsEveryOtherRead(ChunkProviderContract):
    @pytest.fixture(autouse=True)
    def _objects(self, monkeypatch):
        monkeypatch.setattr("headrace.storage.providers.wrappers.retrying.PAUSES_S", (0.0, 0.0))
        faulty = FaultyChunkProvider(MemoryChunkProvider())
        fails = itertools.cycle([True, False])
        faulty.on_read = lambda name: fail_reads(name) if next(fails) else None
        self.provider = RetryingChunkProvider(faulty, timeout_s=60.0)

    async def make(self):
        return self.provider


class TestThrottledProvider(ChunkProviderContract):
    @pytest.fixture(autouse=True)
    def _objects(self):
        budget = RequestBudget(requests_per_s=1e5, bytes_per_s=1e9)
        self.provider = ThrottledChunkProvider(ChunksAtHand(MemoryChunkProvider()), budget)

    async def make(self):
        return self.provider


class TestFilesystemProvider(ChunkProviderContract):
    config = FilesystemProviderConfig()

    @pytest.fixture(autouse=True)
    async def _objects(self, tmp_path):
        self.root = str(tmp_path)
        self.pool = BlockingPool(4, "chunks")
        self.providers = []
        yield
        for provider in self.providers:
            await provider.close()
        self.pool.close()
        await self.pool.wait_closed()

    async def make(self):
        provider = FilesystemChunkProvider(
            self.root, OsFilesystem(), ChunkThreads.shared(self.pool), self.config
        )
        self.providers.append(provider)
        return provider


class TestFilesystemProviderWithOneDescriptor(TestFilesystemProvider):
    config = FilesystemProviderConfig(descriptors_max=1, read_at_once_bytes_max=4096)


class TestFilesystemProviderOnASimulatedDisk(TestFilesystemProvider):
    @pytest.fixture(autouse=True)
    def _disk(self):
        self.files = SimulatedFilesystem(SimulatedDisk(SeededEntropy(1)))
        self.files.mkdir("/chunks")

    async def make(self):
        provider = FilesystemChunkProvider("/chunks", self.files, ChunkThreads.shared(self.pool))
        self.providers.append(provider)
        return provider


class TestMeasuredAndRetryingFilesystemProvider(TestFilesystemProvider):
    """As a container has it."""

    async def make(self):
        return RetryingChunkProvider(MeasuredChunkProvider(await super().make()), timeout_s=60.0)


class TestMemoryRowStore(RowStoreContract):
    async def make(self):
        return MemoryRowStore()

    async def reopen(self, store):
        return MemoryRowStore(store.rows)


class TestFaultyRowStoreWithoutFaults(RowStoreContract):
    async def make(self):
        return FaultyRowStore(MemoryRowStore())


class TestJointRowStore(RowStoreContract):
    async def make(self):
        self.rows = MemoryRowStore()
        return JointRowStore(self.rows, 1000)

    async def reopen(self, store):
        return self.rows
