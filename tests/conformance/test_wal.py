"""The logs we ship keep the contract."""

from dataclasses import replace

import pytest

from headrace.runtime.entropy import SeededEntropy
from headrace.testing.conformance.wal import WalContract
from headrace.testing.disk import DiskConfig
from headrace.testing.distant_wal import make_distant
from headrace.wal.config import WalConfig
from headrace.wal.file import FileWal
from headrace.wal.loop_writes import LoopWrites, LoopWritesConfig
from headrace.wal.memory import MemoryLogStore, MemoryWal
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
