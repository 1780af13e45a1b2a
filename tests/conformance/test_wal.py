"""The logs we ship keep the contract."""

import pytest

from headrace.testing.conformance.wal import WalContract
from headrace.testing.disk import DiskConfig
from headrace.wal import FileWal, MemoryLogStore, MemoryWal, WalConfig
from tests.unit.wal.world import SMALL, Machine


class TestMemoryWal(WalContract):
    @pytest.fixture(autouse=True)
    def _storage(self):
        self.store = MemoryLogStore()

    def make_wal(self):
        return MemoryWal(self.store, "log", SMALL)


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


class TestFileWalOnTheSimulatedDisk(WalContract):
    truncation_granularity_bytes = SMALL.segment_file_bytes

    disk = DiskConfig()

    @pytest.fixture(autouse=True)
    def _storage(self):
        self.machine = Machine(config=self.disk)
        self.machine.pace_s = 0.0

    def make_wal(self):
        return self.machine.make_wal()


class TestFileWalOnASimulatedDiskWithoutDirectWrites(TestFileWalOnTheSimulatedDisk):
    disk = DiskConfig(direct=False)
