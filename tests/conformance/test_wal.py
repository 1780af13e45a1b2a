"""The logs we ship keep the contract."""

import pytest

from headrace.limits import KIB
from headrace.testing.conformance.wal import WalContract
from headrace.wal import FileWal, MemoryLogStore, MemoryWal, WalConfig

SMALL = WalConfig(
    frame_bytes_max=512,
    frames_max=6,
    segment_file_bytes=32 * KIB,
    zero_step_bytes=4 * KIB,
    zero_ahead_bytes=8 * KIB,
    spare_files_max=2,
)


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
