"""The provider on a real name node and data node."""

from __future__ import annotations

import asyncio
import itertools
import os
import signal
import subprocess
import sys

import pytest

from headrace.errors import (
    ChunkExistsError,
    ChunkOffsetError,
    StorageFullError,
    StorageReadError,
    StorageWriteError,
)
from headrace.limits import MIB
from headrace.runtime.blocking import SystemThreads
from headrace.runtime.entropy import SeededEntropy
from headrace.storage.providers.config import HDFS_THREADS
from headrace.storage.providers.files.chunk_threads import ChunkThreads
from headrace.storage.providers.hdfs.provider import HdfsChunkProvider
from headrace.storage.providers.stores import prove_store
from headrace.storage.providers.wrappers.measured import MeasuredChunkProvider
from headrace.storage.providers.wrappers.retrying import RetryingChunkProvider
from headrace.testing.conformance.chunk_provider import ChunkProviderContract, list_names, read_bytes
from tests.stores import hdfs_server
from tests.stores.hdfs_server import HdfsServer

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(bool(hdfs_server.why_not()), reason=hdfs_server.why_not() or "-"),
]

DIRECTORIES = itertools.count()


@pytest.fixture
def location(hdfs):
    """A directory that no other test uses."""
    return hdfs.location(f"tests/{next(DIRECTORIES)}")


@pytest.fixture
async def make(location):
    """Makes providers on the same files, each a client of its own."""
    threads, providers = [], []

    def one_more(**options):
        threads.append(ChunkThreads.start(SystemThreads(), HDFS_THREADS))
        providers.append(HdfsChunkProvider(location, threads[-1], closes_threads=True, **options))
        return providers[-1]

    yield one_more
    for provider in providers:
        await provider.close()
    for each in threads:
        await each.wait_closed()


class TestHdfsProvider(ChunkProviderContract):
    @pytest.fixture(autouse=True)
    def _make(self, make):
        self.make_one = make

    async def make(self):
        return self.make_one()


class TestHdfsProviderAsAContainerHasIt(TestHdfsProvider):
    async def make(self):
        return RetryingChunkProvider(MeasuredChunkProvider(self.make_one()), timeout_s=60.0)


async def test_the_store_is_proven(make):
    await prove_store(make(), SeededEntropy(1))


async def test_eight_writers_at_once_disturb_nobody(make):
    provider = make()

    async def write(number):
        content = bytes([number]) * (3 * MIB + number)
        await provider.create(f"s/{number}", [content[:MIB], content[MIB:]])
        for round_ in range(5):
            await provider.append(f"s/{number}", len(content) + round_, [b"%d" % round_])
        assert await read_bytes(provider, f"s/{number}", 0, len(content) + 5) == content + b"01234"

    await asyncio.gather(*(write(number) for number in range(8)))


async def test_committed_bytes_are_read_while_more_are_appended(make):
    provider = make()
    await provider.create("c", [b"abc"])
    ended = False

    async def append():
        nonlocal ended
        for offset in range(3, 43):
            await provider.append("c", offset, [b"x"])
        ended = True

    async def read():
        while not ended:
            assert await read_bytes(provider, "c", 0, 3) == b"abc"

    await asyncio.gather(append(), read(), read())
    assert await read_bytes(provider, "c", 0, 43) == b"abc" + b"x" * 40


async def test_of_two_who_append_at_one_offset_one_succeeds(make):
    first, second = make(), make()
    await first.create("c", [b"abc"])
    outcomes = await asyncio.gather(
        first.append("c", 3, [b"one"]), second.append("c", 3, [b"two"]), return_exceptions=True
    )
    refused = [each for each in outcomes if each is not None]
    assert [type(each) for each in refused] == [ChunkOffsetError]
    assert refused[0].actual == 6
    assert await read_bytes(first, "c", 0, 6) in {b"abcone", b"abctwo"}


HOLDER = """
import sys, time
from hdfs_native import Client
client = Client("hdfs://" + sys.argv[1])
writer = client.append(sys.argv[2]) if sys.argv[3] == "append" else client.create(sys.argv[2])
writer.write(b"more")
writer.hsync()
print("held", flush=True)
time.sleep(600)
"""


def leave_open(hdfs, location, name, how):
    """Have a process open a file, write to it and be killed."""
    path = f"/{location.prefix}/{name}.chunk"
    command = [sys.executable, "-c", HOLDER, hdfs.address, path, how]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"held\n"
        os.kill(process.pid, signal.SIGKILL)


async def test_what_a_dead_owner_left_open_is_read_and_its_length_known(make, hdfs, location):
    provider = make()
    await provider.create("c", [b"abc"])
    leave_open(hdfs, location, "c", "append")
    assert await read_bytes(provider, "c", 0, 3) == b"abc"
    with pytest.raises(ChunkOffsetError) as caught:
        await provider.append("c", 3, [b"x"])
    assert caught.value.actual == 7
    await provider.append("c", 7, [b"!"])
    assert await read_bytes(provider, "c", 0, 8) == b"abcmore!"


async def test_an_append_to_what_a_dead_owner_left_open_meets_its_length(make, hdfs, location):
    provider = make()
    await provider.create("c", [b"abc"])
    leave_open(hdfs, location, "c", "append")
    with pytest.raises(ChunkOffsetError) as caught:
        await provider.append("c", 3, [b"x"])
    assert caught.value.actual == 7


async def test_what_a_dead_owner_did_not_finish_is_there_and_can_be_deleted(make, hdfs, location):
    provider = make()
    leave_open(hdfs, location, "c", "create")
    with pytest.raises(ChunkExistsError):
        await provider.create("c", [b"x"])
    assert await list_names(provider) == ["c"]
    await provider.delete("c")
    assert await list_names(provider) == []
    await provider.create("c", [b"x"])


async def test_who_only_looks_ends_no_writer(make, hdfs, location):
    provider, looking = make(), make(fences=False)
    await provider.create("c", [b"abc"])
    leave_open(hdfs, location, "c", "append")
    with pytest.raises(StorageReadError, match="another process writes it"):
        await looking.read("c", 0, 3)
    with pytest.raises(StorageWriteError):
        await looking.append("c", 3, [b"x"])
    assert (await looking.info("c")).length == 7


async def test_no_space_is_no_doubt(make, hdfs, location):
    provider, block = make(), bytes(MIB)
    await provider.create("before", [block])
    hdfs.admin("-setSpaceQuota", str(4 * MIB), f"/{location.prefix}")
    with pytest.raises(StorageFullError):
        await provider.create("large", [block] * 8)
    assert await list_names(provider) == ["before"]
    await provider.create("filler", [bytes(5 * MIB // 2)])
    with pytest.raises(StorageFullError):
        await provider.append("before", MIB, [b"d"])
    assert (await provider.info("before")).length == MIB
    assert await read_bytes(provider, "before", 0, MIB) == block
    with pytest.raises(StorageWriteError):  # half a block of it may be there
        await provider.append("filler", 5 * MIB // 2, [block])
    hdfs.admin("-clrSpaceQuota", f"/{location.prefix}")
    await provider.append("before", MIB, [b"d"])
    assert await read_bytes(provider, "filler", 0, 1) == b"\0"


async def test_a_name_node_that_is_away_is_an_error_within_seconds():
    threads = ChunkThreads.start(SystemThreads(), HDFS_THREADS)
    location = HdfsServer.location_of(f"127.0.0.1:{hdfs_server.free_port()}", "d")
    provider = HdfsChunkProvider(location, threads, closes_threads=True)
    with pytest.raises(StorageWriteError, match="refused"):
        await provider.create("c", [b"abc"])
    with pytest.raises(StorageReadError, match="refused"):
        await provider.read("c", 0, 1)
    with pytest.raises(StorageReadError, match="refused"):
        await list_names(provider)
    await provider.close()
    await threads.wait_closed()


async def test_a_name_node_that_comes_back_is_used_again(make, hdfs):
    provider = make()
    await provider.create("c", [b"abc"])
    hdfs.stop_name_node()
    with pytest.raises(StorageWriteError):
        await provider.append("c", 3, [b"d"])
    with pytest.raises(StorageReadError):
        await provider.info("c")
    await asyncio.to_thread(hdfs.start_name_node)
    assert await read_bytes(provider, "c", 0, 3) == b"abc"
    await provider.append("c", 3, [b"d"])
    await provider.create("e", [b"f"])
    assert await read_bytes(provider, "c", 0, 4) == b"abcd"
