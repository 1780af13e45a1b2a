"""What no real name node does on demand: lost answers, panics, full data nodes. The rest is tested on one."""

import asyncio
import os
import threading
from types import SimpleNamespace

import pytest

from headrace.errors import (
    InvalidArgumentError,
    NoSuchChunkError,
    StorageFullError,
    StorageReadError,
    StorageWriteError,
    UnsupportedError,
)
from headrace.limits import MIB
from headrace.runtime.blocking import SystemThreads
from headrace.storage.providers.config import HDFS_THREADS
from headrace.storage.providers.files.chunk_threads import ChunkThreads
from headrace.storage.providers.hdfs import provider as hdfs
from headrace.storage.providers.location import StorageLocation

PATH = "/dir/c.chunk"


class PanicException(BaseException):
    pass


class Hdfs:
    """Stands for the library and its clients. ``fail`` is asked before each call."""

    def __init__(self):
        self.files = {}
        self.open = set()
        self.calls = []
        self.fail = lambda call: None

    def Client(self, url, config):  # noqa: N802
        self.url, self.config = url, config
        return self

    def _do(self, call, *args):
        self.calls.append((call, *args))
        self.fail(call)

    def get_file_info(self, path):
        if path not in self.files:
            raise FileNotFoundError(path)
        return SimpleNamespace(path=path, length=len(self.files[path]), isdir=False, blocksize=MIB)

    def create(self, path):
        self._do("create")
        if path in self.files:
            raise FileExistsError(f"{path} already exists\n\tat org.apache.hadoop.X")
        self.files[path] = bytearray()
        return Writer(self, path)

    def append(self, path):
        self._do("append")
        return Writer(self, path)

    def delete(self, path):
        self._do("delete")
        return self.files.pop(path, None) is not None

    def read(self, path):
        return Reader(self, b"" if path in self.open else bytes(self.files[path]))


class Writer:
    def __init__(self, store, path):
        self.store, self.path = store, path

    def write(self, data):
        assert isinstance(data, bytes)  # anything else costs a hundred times as much
        self.store._do("write", len(data))
        self.store.files[self.path] += data

    def hsync(self):
        self.store._do("hsync")

    def close(self):
        self.store._do("close")


class Reader:
    def __init__(self, store, content):
        self.store, self.content = store, content

    def __len__(self):
        return len(self.content)

    def read_range(self, offset, length):
        self.store._do("read")
        return self.content[offset : offset + length]


@pytest.fixture
def store(monkeypatch):
    store = Hdfs()
    monkeypatch.setattr(hdfs.importlib, "import_module", lambda name: store)
    return store


@pytest.fixture
def threads():
    return ChunkThreads.start(SystemThreads(), HDFS_THREADS)


@pytest.fixture
async def provider(store, threads):
    provider = hdfs.HdfsChunkProvider(
        StorageLocation("hdfs", "host:8020", "dir"), threads, closes_threads=True
    )
    yield provider
    await provider.close()


def fail_at(at, error):
    def fail(call):
        if call == at:
            raise error

    return fail


async def test_a_file_that_a_lost_request_made_is_no_strangers(store, provider):
    store.fail = fail_at("create", FileExistsError("because c1 is already the current lease holder.\n\tat x"))
    with pytest.raises(StorageWriteError):
        await provider.create("c", [b"abc"])


@pytest.mark.parametrize("call", ["create", "write", "hsync", "close"])
async def test_a_panic_is_an_error(store, provider, call):
    store.fail = fail_at(call, PanicException("no reactor"))
    with pytest.raises(StorageWriteError, match="no reactor"):
        await provider.create("c", [b"abc"])


async def test_a_panic_while_reading_is_an_error(store, provider):
    await provider.create("c", [b"abc"])
    store.fail = fail_at("read", PanicException("beyond"))
    with pytest.raises(StorageReadError, match="beyond"):
        await provider.read("c", 0, 3)


@pytest.mark.parametrize("call", ["write", "hsync", "close"])
async def test_the_outcome_of_a_write_that_fails_is_unknown_and_its_lease_given_back(store, provider, call):
    store.fail = fail_at(call, RuntimeError('DataTransferError("All nodes failed for write")'))
    with pytest.raises(StorageWriteError, match="All nodes failed"):
        await provider.create("c", [b"abc"])
    assert store.calls[-1] == ("close",)


async def test_a_file_that_no_data_node_takes_is_not_left_behind(store, provider):
    error = RuntimeError('RPCError("java.io.IOException", "File x could only be written to 0 of the 1")')
    store.fail = fail_at("write", error)
    with pytest.raises(StorageFullError):
        await provider.create("c", [b"abc"])
    assert store.files == {}


async def test_a_write_is_synced_before_it_is_closed_and_each_block_of_it(store, provider):
    await provider.create("c", [bytes(MIB // 2)] * 5)
    block = [("write", MIB), ("hsync",)]
    assert store.calls == [("create",), *block, *block, ("write", MIB // 2), ("hsync",), ("close",)]
    store.calls.clear()
    await provider.append("c", 5 * MIB // 2, [bytes(MIB)])
    half = [("write", MIB // 2), ("hsync",)]
    assert store.calls == [("append",), *half, ("write", MIB // 2), ("hsync",), ("close",)]


async def test_small_buffers_are_joined(store, provider):
    await provider.create("c", [b"ab", memoryview(b"cd"), bytearray(b"ef")] * 1000)
    assert ("write", 6000) in store.calls
    assert store.files[PATH] == b"abcdef" * 1000


async def test_what_a_cancelled_caller_made_is_removed(store, provider):
    begun, may_end, loop = asyncio.Event(), threading.Event(), asyncio.get_running_loop()

    def wait(call):
        if call == "hsync":
            loop.call_soon_threadsafe(begun.set)
            may_end.wait()

    store.fail = wait
    creating = asyncio.ensure_future(provider.create("c", [b"abc"]))
    await begun.wait()
    creating.cancel()
    with pytest.raises(asyncio.CancelledError):
        await creating
    may_end.set()
    await provider.close()
    assert store.files == {}


async def test_a_file_that_goes_while_it_is_appended_to_is_an_unknown_outcome(store, provider):
    await provider.create("c", [b"abc"])
    store.fail = fail_at("close", FileNotFoundError("no lease"))
    with pytest.raises(StorageWriteError):
        await provider.append("c", 3, [b"d"])


async def test_a_file_that_goes_before_it_is_appended_to_is_missed(store, provider):
    store.fail = fail_at("append", FileNotFoundError("no file"))
    with pytest.raises(NoSuchChunkError):
        await provider.append("c", 3, [b"d"])


@pytest.fixture
def no_patience(monkeypatch):
    monkeypatch.setattr(hdfs, "_PAUSES_S", (0.0,))
    monkeypatch.setattr(hdfs, "_RECOVERY_PAUSE_S", 0.0)


async def test_who_looks_has_a_file_closed_as_soon_as_the_name_node_gives_its_holder_up(
    store, provider, threads, no_patience
):
    looking = hdfs.HdfsChunkProvider(StorageLocation("hdfs", "host:8020", "dir"), threads, fences=False)
    await provider.create("c", [b"abc"])
    store.open = {PATH}
    store.fail = fail_at("append", FileExistsError("owned by another"))
    with pytest.raises(StorageReadError, match="within the last minute"):
        await looking.read("c", 0, 3)
    answers = [RuntimeError('RPCError("x.RecoveryInProgressException", "wait")')] * 3

    def recover(call):
        if call == "append" and answers:
            raise answers.pop()
        store.open.clear()

    store.fail = recover
    assert await looking.read("c", 0, 3) == b"abc"
    assert store.calls[-2:] == [("close",), ("read",)]


def make(uri):
    return hdfs.HdfsChunkProvider(
        StorageLocation.parse(uri), ChunkThreads.start(SystemThreads(), HDFS_THREADS)
    )


def test_without_the_library_the_error_says_how_to_get_it(monkeypatch):
    def missing(name):
        raise ModuleNotFoundError(name)

    monkeypatch.setattr(hdfs.importlib, "import_module", missing)
    with pytest.raises(UnsupportedError, match=r"pip install 'headrace\[hdfs\]'"):
        make("hdfs://host:8020/dir")


def test_a_single_name_node_is_not_waited_for_as_long_as_a_name_service(store):
    make("hdfs://host:8020/dir")
    assert (store.url, bool(store.config)) == ("hdfs://host:8020", True)
    make("hdfs://service/dir")
    assert (store.url, bool(store.config)) == ("hdfs://service", False)


def test_a_process_is_one_user(store, monkeypatch):
    monkeypatch.delenv("HADOOP_USER_NAME", raising=False)
    make("hdfs://host:8020/dir?user=ann")
    assert os.environ["HADOOP_USER_NAME"] == "ann"
    make("hdfs://host:8020/dir?user=ann")
    with pytest.raises(InvalidArgumentError, match="is ann"):
        make("hdfs://host:8020/dir?user=bob")
    monkeypatch.delenv("HADOOP_USER_NAME")
