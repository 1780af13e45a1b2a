"""The logs we ship keep the contract."""

from dataclasses import replace

import pytest

from headrace.errors import StorageFullError
from headrace.runtime.blocking import BlockingPool
from headrace.runtime.entropy import SeededEntropy, SystemEntropy
from headrace.runtime.filesystem import OsFilesystem
from headrace.storage.providers.files.chunk_threads import ChunkThreads
from headrace.storage.providers.files.filesystem import FilesystemChunkProvider
from headrace.storage.providers.memory import MemoryChunkProvider
from headrace.testing.conformance.wal import WalContract
from headrace.testing.disk import DiskConfig
from headrace.testing.distant_wal import make_distant
from headrace.wal.bookkeeper.config import LedgerLogConfig
from headrace.wal.bookkeeper.ledger_wal import BookKeeperWal
from headrace.wal.config import WalConfig
from headrace.wal.file import FileWal
from headrace.wal.loop_writes import LoopWrites, LoopWritesConfig
from headrace.wal.memory import MemoryLogStore, MemoryWal
from headrace.wal.objects.config import ObjectLogConfig
from headrace.wal.objects.object_format import HEADER_BYTES
from headrace.wal.objects.object_wal import ObjectWal
from tests.unit.wal.bookkeeper.memory_bookies import MemoryBookies
from tests.unit.wal.world import SMALL, Machine


class TestMemoryWal(WalContract):
    @pytest.fixture(autouse=True)
    def _storage(self):
        self.store = MemoryLogStore()

    def make_wal(self):
        return MemoryWal(self.store, "log", SMALL)

    def fill_storage(self):
        self.store.bytes_max = self.store.bytes_used
        return True

    def free_storage(self):
        self.store.bytes_max = 1 << 20
        self.store.changed()


class TestDistantWal(TestMemoryWal):
    """A log on the other side of a network: what may wait does."""

    def make_wal(self):
        return make_distant(super().make_wal(), SeededEntropy(0), way_s_max=0.001)


class TestFileWal(WalContract):
    """Default sizes: everything fits in one file."""

    truncation_granularity_bytes = WalConfig().segment_file_bytes

    @pytest.fixture(autouse=True)
    def _storage(self, tmp_path):
        self.directory = str(tmp_path / "log")

    def make_wal(self):
        return FileWal(self.directory)


class TestFileWalOfSmallFiles(TestFileWal):
    """Five records per file: every test rolls over and recycles."""

    truncation_granularity_bytes = SMALL.segment_file_bytes

    def make_wal(self):
        return FileWal(self.directory, SMALL)


class TestFileWalThatWritesOnTheLoop(TestFileWal):
    """As a server does while the disk is quick; this one always is."""

    def make_wal(self):
        return FileWal(self.directory, loop_writes=LoopWrites(LoopWritesConfig(mean_s_max=1.0)))


class TestFileWalOnTheSimulatedDisk(WalContract):
    loop_writes = False

    truncation_granularity_bytes = SMALL.segment_file_bytes

    disk = DiskConfig()

    @pytest.fixture(autouse=True)
    def _storage(self):
        self.machine = Machine(config=self.disk, loop_writes=self.loop_writes)
        self.machine.pace_s = 0.0

    def make_wal(self):
        return self.machine.make_wal()

    def fill_storage(self):
        self.set_capacity(self.disk.capacity_bytes - self.machine.disk.free_bytes)
        return True

    def free_storage(self):
        self.set_capacity(self.disk.capacity_bytes)

    def set_capacity(self, capacity):
        self.machine.disk.config = replace(self.disk, capacity_bytes=capacity)


class TestFileWalOnASimulatedDiskWithoutDirectWrites(TestFileWalOnTheSimulatedDisk):
    disk = DiskConfig(direct=False)


class TestFileWalThatWritesOnASimulatedLoop(TestFileWalOnTheSimulatedDisk):
    loop_writes = True


class BucketWithAQuota(MemoryChunkProvider):
    """Once it is full, it has space for heads, claims and fences, and for no record."""

    is_full = False

    async def create(self, name, buffers=(), beside=None):
        if self.is_full and sum(map(len, buffers)) > HEADER_BYTES:
            raise StorageFullError("the quota of the bucket is used up")
        await super().create(name, buffers, beside)


class TestObjectWal(WalContract):
    config = ObjectLogConfig(full_pause_s=0.001)

    @pytest.fixture(autouse=True)
    def _storage(self):
        self.store = BucketWithAQuota()

    def make_wal(self):
        return ObjectWal(self.store, 3, SystemEntropy(), SMALL, self.config)

    def fill_storage(self):
        self.store.is_full = True
        return True

    def free_storage(self):
        self.store.is_full = False


class TestObjectWalOfFewRecordsAtATime(TestObjectWal):
    """Frames wait for one another, and share records."""

    config = ObjectLogConfig(full_pause_s=0.001, window=1, record_bytes_max=200)


class TestObjectWalInADirectory(WalContract):
    @pytest.fixture(autouse=True)
    async def _storage(self, tmp_path):
        self.pool = BlockingPool(4, "chunks")
        self.store = FilesystemChunkProvider(str(tmp_path), OsFilesystem(), ChunkThreads.shared(self.pool))
        yield
        await self.store.close()
        self.pool.close()
        await self.pool.wait_closed()

    def make_wal(self):
        return ObjectWal(self.store, 3, SystemEntropy(), SMALL)


class TestBookKeeperWal(WalContract):
    config = LedgerLogConfig(pause_s=0.001)
    truncation_granularity_bytes = config.ledger_bytes_max

    @pytest.fixture(autouse=True)
    async def _storage(self):
        self.bookies = MemoryBookies()

    def make_wal(self):
        return BookKeeperWal(self.bookies.maker(), "logs/3", 3, SMALL, self.config)

    def fill_storage(self):
        self.bookies.fill()
        return True

    def free_storage(self):
        self.bookies.free()


class TestBookKeeperWalOfSmallLedgers(TestBookKeeperWal):
    """A few frames to a ledger, one of three bookies away."""

    config = LedgerLogConfig(pause_s=0.001, full_check_s=0.001, ledger_bytes_max=300, window=1)
    truncation_granularity_bytes = 300

    @pytest.fixture(autouse=True)
    async def _storage(self):
        self.bookies = MemoryBookies(4)
        self.bookies.kill("b1:1", is_listed=True)
