"""The logs of a system that we ship keep the contract."""

from dataclasses import replace

import pytest

from headrace.runtime.context import system_runtime
from headrace.runtime.read_only_files import ReadOnlyFiles
from headrace.testing.conformance.wal import LogsContract
from headrace.testing.filesystem import SimulatedFilesystem
from headrace.wal.memory import MemoryLogStore
from headrace.wal.memory_logs import MemoryLogs
from headrace.wal.stores import find_logs, make_logs
from tests.unit.wal.world import SMALL, Machine


class TestMemoryLogs(LogsContract):
    @pytest.fixture(autouse=True)
    def _storage(self):
        self.store = MemoryLogStore()

    def make_logs(self):
        return MemoryLogs(self.store, SMALL)


class TestFileLogs(LogsContract):
    @pytest.fixture(autouse=True)
    def _storage(self, tmp_path):
        self.directory = tmp_path

    def make_logs(self):
        return make_logs(str(self.directory), system_runtime(), SMALL)

    def test_the_logs_that_exist_are_found_by_their_names(self):
        found = find_logs(str(self.directory), ReadOnlyFiles())
        names = ("container-10", "container-2", "container-007", "container-", "container-1.old", "aside")
        for name in names:
            (self.directory / "wal" / name).mkdir(parents=True)
        assert found.numbers() == [2, 10]


async def test_a_log_that_is_made_or_deleted_survives_the_loss_of_power():
    disk = Machine().disk
    files = SimulatedFilesystem(disk)
    files.mkdir("/data")
    files.fsync_directory("/")
    runtime = replace(system_runtime(), filesystem=files)
    logs = make_logs("/data", runtime, SMALL)
    for container in (0, 1):
        await logs.begin(container, 1000)
    await logs.delete(1)
    disk.lose_power()
    disk.restore_power()
    found = find_logs("/data", SimulatedFilesystem(disk))
    assert found.numbers() == [0]
    assert found.log(0).snapshot().epoch == 999
