"""The logs of a system that we ship keep the contract."""

from dataclasses import replace

import pytest

from headrace.runtime.blocking import SystemThreads
from headrace.runtime.context import system_runtime
from headrace.runtime.filesystem import OsFilesystem
from headrace.runtime.read_only_files import ReadOnlyFiles
from headrace.storage.providers.config import ChunkThreadsConfig
from headrace.storage.providers.files.chunk_threads import ChunkThreads
from headrace.storage.providers.files.filesystem import FilesystemChunkProvider
from headrace.storage.providers.memory import MemoryChunkProvider
from headrace.testing.conformance.wal import LogsContract
from headrace.testing.filesystem import SimulatedFilesystem
from headrace.wal.memory import MemoryLogStore
from headrace.wal.memory_logs import MemoryLogs
from headrace.wal.stores import LogBookies, LogBucket, find_logs, make_logs
from tests.unit.wal.bookkeeper.memory_bookies import MemoryBookies
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


class TestObjectLogs(LogsContract):
    @pytest.fixture(autouse=True)
    def _storage(self):
        self.store = MemoryChunkProvider()

    def make_store(self):
        return self.store

    def make_logs(self):
        place = LogBucket("memory://", self.make_store)
        return make_logs("", system_runtime(), SMALL, place=place)


class TestObjectLogsInADirectory(TestObjectLogs):
    """Each look has threads of its own."""

    @pytest.fixture(autouse=True)
    async def _storage(self, tmp_path):
        self.directory = str(tmp_path)
        self.made = []
        yield
        for logs in self.made:
            await logs.close()

    def make_store(self):
        threads = ChunkThreads.start(SystemThreads(), ChunkThreadsConfig(writes=2, reads=2))
        return ClosingProvider(threads, self.directory)

    def make_logs(self):
        self.made.append(super().make_logs())
        return self.made[-1]


class TestBookKeeperLogs(LogsContract):
    @pytest.fixture(autouse=True)
    async def _storage(self):
        self.bookies = MemoryBookies()

    def make_logs(self):
        return make_logs("", system_runtime(), SMALL, place=LogBookies(self.bookies.cluster()))

    def test_looks_that_follow_each_other_share_a_session(self):
        logs = self.make_logs()
        assert [logs.log(container).is_begun() for container in range(200)] == [False] * 200
        assert len(self.bookies.sessions) < 20


class ClosingProvider(FilesystemChunkProvider):
    """Has its threads for itself."""

    def __init__(self, threads, directory):
        super().__init__(directory, OsFilesystem(), threads)
        self._own_threads = threads

    async def close(self):
        await super().close()
        self._own_threads.close()
        await self._own_threads.wait_closed()


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
