"""What surrounds the containers of a process: threads that hang, settings that do not fit together."""

import asyncio
import os
import threading

import httpx
import pytest

from headrace.data_directory.chunk_store import ChunkStore
from headrace.errors import FencedOutError, InvalidArgumentError, WalWriteError
from headrace.limits import MIB
from headrace.processes import wired_store as data_plane
from headrace.processes.beside_store import BesideStore
from headrace.processes.config import StandaloneConfig
from headrace.processes.own_cluster import OwnCluster
from headrace.processes.wired_store import WiredStore
from headrace.runtime.blocking import SystemThreads
from headrace.runtime.clock import SystemClock
from headrace.runtime.context import Runtime, system_runtime
from headrace.runtime.entropy import SeededEntropy
from headrace.runtime.filesystem import OsFilesystem
from headrace.runtime.setting_values import parse_value
from headrace.runtime.settings import walk
from headrace.runtime.settings_sources import load
from headrace.segmentstore.container.config import ContainerConfig
from headrace.segmentstore.storagewriter.config import StorageWriterConfig
from headrace.storage.providers.location import StorageLocation
from headrace.wal.loop_writes import LoopWritesConfig
from headrace.web.probes import probe_application
from tests.stores.small_s3 import SmallS3


class HangingChunks(OsFilesystem):
    """Nobody answers when a chunk file is to be made, until ``answer``."""

    def __init__(self):
        self.asked = threading.Event()
        self.answer = threading.Event()

    def open(self, path, flags, mode=0o644):
        if path.endswith(".chunk") and flags & os.O_CREAT:
            self.asked.set()
            assert self.answer.wait(240)
        return super().open(path, flags, mode)


def container_config(stop_flush_s=0.05):
    return ContainerConfig(storage_writer=StorageWriterConfig(flush_age_s=0.0, stop_flush_s=stop_flush_s))


@pytest.mark.slow
@pytest.mark.parametrize("is_answered", [True, False])
async def test_a_stop_leaves_a_call_behind_that_is_not_answered(tmp_path, monkeypatch, is_answered):
    monkeypatch.setattr(data_plane, "_THREADS_END_S", 120.0 if is_answered else 0.05)
    files = HangingChunks()
    runtime = Runtime(SystemClock(), SeededEntropy(1), files, SystemThreads())
    config = StandaloneConfig(data_dir=str(tmp_path), container=container_config())
    plane = WiredStore(config, runtime, 1)
    await plane.start()
    container = plane.registry.running()[0]
    segment = await container.create("s/a", {})
    await container.append(segment, b"x" * 100)
    await asyncio.to_thread(files.asked.wait, 120)
    if is_answered:
        asyncio.get_running_loop().call_later(0.1, files.answer.set)
    async with asyncio.timeout(120):
        await plane.stop()
    assert plane.is_stalled != is_answered
    files.answer.set()
    monkeypatch.setattr(data_plane, "_THREADS_END_S", 120.0)

    again = WiredStore(config, Runtime(SystemClock(), SeededEntropy(2), OsFilesystem(), SystemThreads()), 1)
    await again.start()
    container = again.registry.running()[0]
    result = await container.read(await container.resolve("s/a"), 0, 1000, wait=False)
    assert result.to_bytes() == b"x" * 100
    await again.stop()
    assert not again.is_stalled


@pytest.mark.parametrize("key", [each.key for each in walk(StandaloneConfig) if "bytes" in each.key])
def test_every_number_of_bytes_may_be_given_as_a_text_with_its_unit(key):
    assert parse_value(key, int, "1 MiB") == MIB


def test_a_cache_for_full_load_holds_twice_what_the_frames_hold():
    found = load(StandaloneConfig, overrides={"frames_max": 13})
    assert found.cache_bytes_wanted(4) == 4 * 2 * 26 * MIB


@pytest.mark.slow
async def test_containers_share_the_frames_of_their_logs_and_give_all_of_them_back(tmp_path, monkeypatch):
    monkeypatch.setattr(data_plane, "_TRIM_EVERY_S", 0.001)
    runtime = Runtime(SystemClock(), SeededEntropy(1), OsFilesystem(), SystemThreads())
    plane = WiredStore(StandaloneConfig(data_dir=str(tmp_path), container=container_config()), runtime, 3)
    await plane.start()
    for container in plane.registry.running():
        await container.append(await container.create("s/a", {}), b"x" * (7 * MIB))
    frames = plane.statistics()["frames"]
    assert 4 <= frames.frames_lent + frames.frames_free < 3 * 4  # not four for each
    async with asyncio.timeout(120):
        while not plane.statistics()["frames"].frames_trimmed:  # noqa: ASYNC110 - a gauge tells nobody
            await asyncio.sleep(0)
    for container in plane.registry.running():
        await container.append(await container.create("s/b", {}), b"y" * (7 * MIB))
    await plane.stop()
    assert plane.statistics()["frames"].frames_lent == 0


@pytest.mark.slow
async def test_what_is_set_about_chunk_files_reaches_them(tmp_path):
    config = load(
        StandaloneConfig,
        overrides={
            "data_dir": str(tmp_path),
            "chunk_files.written_cache_bytes": 0,
            "container.storage_writer.flush_age_s": 0.0,
        },
    )
    runtime = Runtime(SystemClock(), SeededEntropy(1), OsFilesystem(), SystemThreads())
    plane = WiredStore(config, runtime, 1)
    await plane.start()
    container = plane.registry.running()[0]
    await container.append(await container.create("s/a", {}), b"x" * 100_000)
    async with asyncio.timeout(120):
        while plane.statistics()["chunk_files"].bytes_dropped < 100_000:  # noqa: ASYNC110 - a gauge tells nobody
            await asyncio.sleep(0)
    await plane.stop()


async def test_linger_bounds_the_objects_that_the_log_of_a_container_makes(tmp_path):
    async with SmallS3() as s3:
        log = f"s3://bucket/log?anonymous=true&endpoint=http://127.0.0.1:{s3.port}&region=us-east-1"
        config = load(
            StandaloneConfig,
            overrides={"data_dir": str(tmp_path), "log_in_bucket.linger_s": "50 ms"},
        )
        chunks = StorageLocation.parse(f"file://{tmp_path}/chunks")
        plane = WiredStore(config, system_runtime(), 1, chunk_store=ChunkStore(chunks, "0" * 32, log=log))
        await plane.start()
        container = plane.registry.running()[0]
        segment = await container.create("s/a", {})
        s3.requests.clear()
        began = asyncio.get_running_loop().time()
        for _ in range(20):
            await container.append(segment, b"x")
        seconds = asyncio.get_running_loop().time() - began
        made = [target for method, target in s3.requests if method == "PUT"]
        assert len(made) <= seconds / 0.05 + 2
        await plane.stop()
    with pytest.raises(InvalidArgumentError, match=r"log_in_bucket.linger_s = 6.0 is outside"):
        load(StandaloneConfig, overrides={"log_in_bucket.linger_s": 6.0})


class CountingFiles(OsFilesystem):
    """Knows which files are open."""

    def __init__(self):
        self.open_files = {}

    def open(self, path, flags, mode=0o644):
        fd = super().open(path, flags, mode)
        self.open_files[fd] = path
        return fd

    def close(self, fd):
        self.open_files.pop(fd, None)
        super().close(fd)


async def test_a_stop_right_behind_the_failure_of_a_container_leaves_no_file_open_and_no_task(tmp_path):
    files = CountingFiles()
    runtime = Runtime(SystemClock(), SeededEntropy(1), files, SystemThreads())
    plane = WiredStore(StandaloneConfig(data_dir=str(tmp_path), container=container_config()), runtime, 2)
    await plane.start()
    failed = plane.registry.running()[0]
    failed.log.fail(WalWriteError("EIO"))
    await plane.stop()
    assert failed.tiers.supervisor.statistics().running == []
    assert list(files.open_files.values()) == []


async def test_threads_of_chunk_files_end_although_a_container_could_not_be_stopped(tmp_path):
    runtime = Runtime(SystemClock(), SeededEntropy(1), OsFilesystem(), SystemThreads())
    plane = WiredStore(StandaloneConfig(data_dir=str(tmp_path), container=container_config()), runtime, 2)
    await plane.start()
    threads = plane._chunk_threads
    container = plane.registry.running()[0]
    stop = container.stop

    async def stop_badly():
        await stop()
        raise WalWriteError("closing the log failed: EIO")  # as Wal.close says that it may

    container.stop = stop_badly
    with pytest.raises(WalWriteError):
        await plane.stop()
    ended = plane._chunk_threads is None
    threads.close()
    await threads.wait_closed()
    assert ended, "nobody has asked them to end, or noticed that one hangs"


async def test_the_process_is_notified_when_every_container_was_taken_over_and_not_before(tmp_path):
    told = []
    runtime = Runtime(SystemClock(), SeededEntropy(1), OsFilesystem(), SystemThreads())
    config = StandaloneConfig(data_dir=str(tmp_path), container=container_config())
    plane = WiredStore(config, runtime, 3, cluster=OwnCluster(3, runtime, told.append))
    await plane.start()
    first, second, third = plane.registry.running()
    for container, error in (
        (second, FencedOutError("x")),
        (first, WalWriteError("EIO")),
        (third, FencedOutError("x")),
    ):
        container.log.fail(error)
    async with asyncio.timeout(120):
        while (running := plane.registry.running()) == [first] or len(running) != 1:  # noqa: ASYNC110
            await asyncio.sleep(0.001)  # nobody tells
        assert running[0].container_id == first.container_id
        assert not told
        running[0].log.fail(FencedOutError("rebuilt elsewhere"))
        while not told:  # noqa: ASYNC110
            await asyncio.sleep(0.001)
    assert [str(error) for error in told] == [
        "all containers were taken over by another owner: rebuilt elsewhere"
    ]
    assert {found.last_failure.split(":")[0] for found in plane.container_health()} == {"FencedOutError"}
    await plane.stop()


class HangingLog(CountingFiles):
    """Nobody answers a write to a log once it hangs, until ``answer``."""

    def __init__(self):
        super().__init__()
        self.hangs = False
        self.is_hanging = threading.Event()
        self.answer = threading.Event()

    def pwrite(self, fd, data, offset):
        if self.hangs and "/wal/" in self.open_files[fd]:
            self.is_hanging.set()
            assert self.answer.wait(240)
        return super().pwrite(fd, data, offset)


async def test_a_stop_ends_although_the_log_of_a_container_hangs(tmp_path, monkeypatch):
    monkeypatch.setattr(data_plane, "_LOGS_END_S", 0.3)
    files = HangingLog()
    runtime = Runtime(SystemClock(), SeededEntropy(1), files, SystemThreads())
    config = StandaloneConfig(
        data_dir=str(tmp_path),
        container=container_config(),
        loop_writes=LoopWritesConfig(log_write_bytes_max=0),
    )
    plane = WiredStore(config, runtime, 2)
    await plane.start()
    container = plane.registry.running()[0]
    segment = await container.create("s/a", {})
    files.hangs = True
    appending = asyncio.ensure_future(container.append(segment, b"x" * 100))
    assert await asyncio.to_thread(files.is_hanging.wait, 240)
    async with asyncio.timeout(120):
        await plane.stop()
    assert plane.is_stalled
    assert plane.log_is_stalled
    assert any("/wal/" in path for path in files.open_files.values()), "a thread writes to it"
    assert not appending.done()
    files.hangs = False
    files.answer.set()
    async with asyncio.timeout(120):
        await appending
        await plane.stop()
        while plane.log_is_stalled:  # a stop waits only so long for it
            await plane.stop()
    assert list(files.open_files.values()) == []


@pytest.mark.slow
async def test_a_stop_closes_the_chunk_files_that_were_kept_open(tmp_path):
    files = CountingFiles()
    runtime = Runtime(SystemClock(), SeededEntropy(1), files, SystemThreads())
    plane = WiredStore(StandaloneConfig(data_dir=str(tmp_path), container=container_config()), runtime, 1)
    await plane.start()
    container = plane.registry.running()[0]
    segment = await container.create("s/a", {})
    await container.append(segment, b"x" * 1000)
    await container.flush_storage()
    await plane.stop()
    assert not files.open_files
    plane = WiredStore(StandaloneConfig(data_dir=str(tmp_path), container=container_config()), runtime, 1)
    await plane.start()
    container = plane.registry.running()[0]
    result = await container.read(await container.resolve("s/a"), 0, 1000, wait=False)
    assert result.to_bytes() == b"x" * 1000
    await plane.stop()
    assert list(files.open_files.values()) == []


@pytest.mark.parametrize("ends", ["bug", "cancelled", "cancelled at once"])
async def test_a_container_whose_last_work_goes_wrong_leaves_no_file_open_and_no_task(tmp_path, ends):
    files = CountingFiles()
    runtime = Runtime(SystemClock(), SeededEntropy(1), files, SystemThreads())
    plane = WiredStore(StandaloneConfig(data_dir=str(tmp_path), container=container_config(60.0)), runtime, 1)
    await plane.start()
    container = plane.registry.running()[0]
    finishing = asyncio.Event()

    async def forget():
        finishing.set()
        if ends == "bug":
            raise RuntimeError("a bug")
        await asyncio.Event().wait()

    container.tiers._retired_segments.forget = forget
    if ends == "bug":
        await plane.stop()
    else:
        stopping = asyncio.ensure_future(container.stop())
        await (asyncio.sleep(0) if ends == "cancelled at once" else finishing.wait())
        stopping.cancel()
        with pytest.raises(asyncio.CancelledError):
            await stopping
    assert container.tiers.supervisor.statistics().running == []
    left = [path for path in files.open_files.values() if "/wal/" in path]
    await plane.stop()
    assert left == []
    assert list(files.open_files.values()) == []


@pytest.mark.slow
async def test_a_segment_store_alone_tells_how_it_is_and_what_it_counts(tmp_path):
    plane = WiredStore(StandaloneConfig(data_dir=str(tmp_path), containers=2), system_runtime(), 2)
    transport = httpx.ASGITransport(app=probe_application([plane], BesideStore(plane), "1.2.3"))
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as web:

        async def states():
            found = (await web.get("/health")).json()
            return found["status"], found["readiness"]

        assert await states() == ("STARTING", False)
        await plane.start()
        try:
            assert await states() == ("UP", True)
            children = (await web.get("/health")).json()["children"]
            assert list(children) == ["longTermStorage", "container-0", "container-1"]
            text = (await web.get("/metrics")).text
            assert "headrace_ready 1.0" in text
            assert 'headrace_container_online{container="1"} 1.0' in text
            assert "headrace_controller" not in text
        finally:
            await plane.stop()
