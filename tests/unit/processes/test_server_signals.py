"""A server that is told to stop at an odd moment."""

import asyncio
import errno
import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import headrace
from headrace.data_directory import chunk_store
from headrace.errors import InvalidArgumentError
from headrace.model.hashing import container_of
from headrace.processes import ready_file
from headrace.processes import wired_store as data_plane
from headrace.processes.config import StandaloneConfig
from headrace.processes.serving import serve, start_until
from headrace.processes.standalone import StandaloneServer
from headrace.runtime import supervisor
from headrace.runtime.blocking import SystemThreads
from headrace.runtime.clock import SystemClock
from headrace.runtime.context import Runtime
from headrace.runtime.entropy import SeededEntropy
from headrace.runtime.filesystem import OsFilesystem
from headrace.runtime.settings_sources import load
from headrace.segmentstore.container.config import ContainerConfig
from headrace.segmentstore.storagewriter.config import StorageWriterConfig


class Files(OsFilesystem):
    """Chunks that cannot be made, or hang; no space for the log of container 1."""

    def __init__(self, *, chunks="work", full=False):
        self.chunks = chunks
        self.full = full
        self.asked = threading.Event()
        self.answer = threading.Event()

    def open(self, path, flags, mode=0o644):
        if flags & os.O_CREAT:
            if path.endswith(".chunk"):
                if self.chunks == "fail":
                    raise OSError(errno.EIO, "EIO")
                if self.chunks == "hang":
                    self.asked.set()
                    assert self.answer.wait(60)
            if self.full and "container-1/" in path:
                raise OSError(errno.ENOSPC, "no space left")
        return super().open(path, flags, mode)


def make_server(tmp_path, files, **changes):
    values = {
        "data_dir": str(tmp_path / "data"),
        "controller_port": 0,
        "segmentstore_port": 0,
        "rest_port": 0,
        "containers": 2,
        "container": ContainerConfig(storage_writer=StorageWriterConfig(flush_age_s=0.0, stop_flush_s=0.05)),
    }
    config = StandaloneConfig(**values | changes)
    return StandaloneServer(config, Runtime(SystemClock(), SeededEntropy(1), files, SystemThreads()))


async def test_a_start_that_is_given_up_may_take_its_time_to_end(monkeypatch):
    """A second cancellation would cut off what the first one began: to stop what was started."""
    monkeypatch.setattr(supervisor, "STOP_WARNING_S", 0.02)
    told, steps = asyncio.Event(), []

    class SlowServer:
        async def start(self):
            try:
                told.set()
                await asyncio.Event().wait()
            finally:
                await asyncio.sleep(0.1)  # a container stores what it has
                steps.append("stopped")

    assert await start_until(told, SlowServer().start()) is None
    assert steps == ["stopped"]


@pytest.mark.slow
async def test_a_signal_during_the_start_notices_a_call_that_hangs(tmp_path, monkeypatch):
    """Or the process would wait for that thread for ever, at its very end."""
    monkeypatch.setattr(data_plane, "_THREADS_END_S", 0.5)
    monkeypatch.setattr(supervisor, "STOP_WARNING_S", 0.5)  # the two are the same by default
    monkeypatch.setattr(chunk_store, "WAITS_S", 0.1)
    first = make_server(tmp_path, Files(chunks="fail"))
    await first.start()
    name = next(f"s/{n}" for n in range(100) if container_of(f"s/{n}", 2) == 0)
    await first.store.wired.store.create_segment(name)
    await first.store.wired.store.append(name, b"x" * 100)
    await first.stop()

    files = Files(chunks="hang", full=True)
    second, stopping = make_server(tmp_path, files), asyncio.Event()
    starting = asyncio.ensure_future(start_until(stopping, second.start()))
    assert await asyncio.to_thread(files.asked.wait, 120)
    while not any(  # noqa: ASYNC110 - nothing could set an event
        health.last_failure for health in second.store.wired.container_health()
    ):
        await asyncio.sleep(0.01)
    stopping.set()
    async with asyncio.timeout(120):
        assert await starting is None
    is_stalled = second.is_stalled
    files.answer.set()
    await asyncio.sleep(0.1)
    assert is_stalled


@pytest.mark.slow
async def test_a_ready_file_that_cannot_be_removed_keeps_no_server_from_stopping(tmp_path, monkeypatch):
    path = tmp_path / "ready"
    config = StandaloneConfig(
        in_memory=True,
        controller_port=0,
        segmentstore_port=0,
        rest_port=0,
        containers=1,
        ready_file=str(path),
    )
    server = StandaloneServer(config)
    serving = asyncio.ensure_future(serve(server))
    async with asyncio.timeout(120):
        while not path.exists():  # noqa: ASYNC110 - nothing could set an event
            await asyncio.sleep(0.01)
        path.unlink()
        path.mkdir()
        os.kill(os.getpid(), signal.SIGTERM)
        with pytest.raises(OSError):
            await serving
    running = server.store.wired.registry.running()
    await server.stop()
    assert running == [], "nobody has stopped the containers"


@pytest.mark.parametrize(
    "setting",
    [
        {"host": ""},
        {"host": "a" * 70},
        {"host": "x..y"},
        {"host": "a\0b"},
        {"data_dir": ""},
        {"data_dir": "a\0b"},
        {"ready_file": "a\0b"},
    ],
)
def test_a_name_that_no_system_can_look_up_is_refused(setting):
    with pytest.raises(InvalidArgumentError, match=next(iter(setting))):
        load(StandaloneConfig, overrides=setting)


def test_a_file_of_settings_that_no_system_can_open_is_refused():
    with pytest.raises(InvalidArgumentError, match="cannot read settings"):
        load(StandaloneConfig, file="a\0b")


@pytest.mark.parametrize(
    "host", ["localhost", "127.0.0.1", "::1", "fe80::1%eth0", "b\u00fccher.example", "a.b."]
)
def test_names_and_addresses_of_hosts_are_taken(host):
    assert load(StandaloneConfig, overrides={"host": host}).host == host


def fill_disk(monkeypatch, times):
    """No space for the next ``times`` ready files."""
    write, asked = Path.write_text, []

    def write_text(path, text, *args, **kwargs):
        if ".ready" in path.name:
            asked.append(path)
            if len(asked) <= times:
                write(path, text[:10])
                raise OSError(errno.ENOSPC, "no space left")
        return write(path, text, *args, **kwargs)

    monkeypatch.setattr(Path, "write_text", write_text)
    monkeypatch.setattr(ready_file, "RETRY_S", 0.01)
    return asked


@pytest.mark.slow
@pytest.mark.parametrize("until_space", [True, False])
async def test_a_ready_file_waits_for_space_as_all_else_does(tmp_path, monkeypatch, until_space):
    asked = fill_disk(monkeypatch, 3 if until_space else 10**9)
    path = tmp_path / "ready"
    config = StandaloneConfig(
        in_memory=True,
        controller_port=0,
        segmentstore_port=0,
        rest_port=0,
        containers=1,
        ready_file=str(path),
    )
    serving = asyncio.ensure_future(serve(StandaloneServer(config)))
    async with asyncio.timeout(120):
        while not (path.exists() if until_space else len(asked) > 5):
            assert not serving.done(), "it ended, though it can serve"
            await asyncio.sleep(0.01)
        if until_space:
            assert set(json.loads(path.read_text())) == {"controller", "segmentstore", "rest", "tls", "pid"}
        os.kill(os.getpid(), signal.SIGTERM)
        assert not await serving
    assert list(tmp_path.iterdir()) == []


def test_a_ready_file_that_cannot_be_written_leaves_nothing_behind(tmp_path, monkeypatch):
    fill_disk(monkeypatch, 1)
    with pytest.raises(OSError, match="no space"):
        ready_file.write_ready_file(str(tmp_path / "ready"), {})
    assert list(tmp_path.iterdir()) == []


HANGING = """
import asyncio, os, signal, sys, threading
from headrace.runtime.blocking import SystemThreads
from headrace.runtime.clock import SystemClock
from headrace.runtime.context import Runtime
from headrace.runtime.entropy import SystemEntropy
from headrace.runtime.filesystem import OsFilesystem
from headrace.runtime.logs import configure
from headrace.segmentstore.container.config import ContainerConfig
from headrace.segmentstore.storagewriter.config import StorageWriterConfig
from headrace.processes import wired_store as data_plane
from headrace.processes import standalone as server
from headrace.processes.config import StandaloneConfig
from headrace.wal.loop_writes import LoopWritesConfig


class HangingLog(OsFilesystem):
    hangs = False

    def pwrite(self, fd, data, offset):
        if HangingLog.hangs:
            os.kill(os.getpid(), signal.SIGTERM)
            threading.Event().wait()
        return super().pwrite(fd, data, offset)


async def append(started):
    while not os.path.exists(sys.argv[2]):
        await asyncio.sleep(0.01)
    HangingLog.hangs = True
    await started.store.wired.store.create_segment("s/a")


class Server(server.StandaloneServer):
    def __init__(self, config):
        super().__init__(config, Runtime(SystemClock(), SystemEntropy(), HangingLog(), SystemThreads()))
        self.appending = asyncio.ensure_future(append(self))


configure()
data_plane._LOGS_END_S = 0.3
server.StandaloneServer = Server
server.run(
    StandaloneConfig(
        data_dir=sys.argv[1], ready_file=sys.argv[2], containers=1,
        controller_port=0, segmentstore_port=0, rest_port=0,
        container=ContainerConfig(storage_writer=StorageWriterConfig(stop_flush_s=0.05)),
        loop_writes=LoopWritesConfig(log_write_bytes_max=0),
    )
)
print("not left")
"""


@pytest.mark.cluster
@pytest.mark.slow
def test_a_process_whose_log_hangs_is_left(tmp_path):
    """Neither the end of the loop nor that of the interpreter may wait for what nothing ends."""
    ended = subprocess.run(
        [sys.executable, "-c", HANGING, str(tmp_path / "data"), str(tmp_path / "ready")],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, "PYTHONPATH": str(Path(headrace.__file__).parent.parent)},
    )
    assert ended.returncode == 0, ended.stderr
    assert "the log of container 0 is stalled" in ended.stderr
    assert "the process ends with a stalled call" in ended.stderr
    assert "not left" not in ended.stdout
    assert not (tmp_path / "ready").exists()
    assert b"pid" in (tmp_path / "data" / "LOCK").read_bytes(), "it was held to the very end"
