"""History through caches that are far too small: read from chunks, damaged, deleted, killed in between."""

import asyncio
import hashlib
import os
import random

import pytest

from headrace.client import ReaderConfig, connect
from headrace.client.reconnect_policy import ReconnectPolicy
from headrace.errors import HeadraceError
from headrace.testing import LocalServer
from tests.effort import is_long, soak

pytestmark = [pytest.mark.cluster, pytest.mark.usefixtures("clean_end")]

MIB = 1 << 20
LONG = 200 if is_long() else 100
"""MiB, several times what any cache here holds."""
IMPATIENT = ReaderConfig(reconnect=ReconnectPolicy(give_up_s=0.5))
SETTINGS = """
cache_bytes = "32 MiB"
[container]
unstored_bytes_max = "8 MiB"
checkpoint_bytes = "16 MiB"
[container.storage_writer]
flush_age_s = 1
[chunk_files]
written_cache_bytes = "1 MiB"
"""


@pytest.fixture
def server(tmp_path):
    config = tmp_path / "headrace.toml"
    config.write_text(SETTINGS)
    server = LocalServer(tmp_path / "server", "--containers", "1", "--config", str(config))
    server.start()
    yield server
    server.close()


def blocks(count, seed=1):
    """Yield pieces of 256 KiB that cannot be taken for one another."""
    chance = random.Random(seed)
    for _ in range(count):
        yield chance.randbytes(256 << 10)


async def fill(client, mebibytes, hasher, stream="bytes", on_progress=None):
    await client.create_scope("demo")
    await client.create_stream("demo", stream)
    async with client.byte_writer("demo", stream) as writer:
        for number, block in enumerate(blocks(4 * mebibytes)):
            hasher.update(block)
            await writer.write(block)
            if on_progress is not None:
                on_progress(number)


async def digest(client, length, stream="bytes", config=None):
    hasher = hashlib.sha256()
    left = length
    async with client.byte_reader("demo", stream, config=config) as reader:
        while left:
            data = await reader.read(min(left, MIB))
            assert data
            hasher.update(data)
            left -= len(data)
    return hasher.hexdigest()


def directory_bytes(path):
    return sum(entry.stat().st_size for entry in path.rglob("*") if entry.is_file())


def chunks_of(server, stream):
    """Return the chunk files of a stream, largest first."""
    files = [path for path in (server.directory / "data" / "chunks").rglob("*") if path.is_file()]
    return sorted((path for path in files if stream in str(path)), key=lambda path: -path.stat().st_size)


@pytest.mark.slow
async def test_what_left_the_cache_long_ago_comes_back_byte_by_byte(server):
    hasher = hashlib.sha256()
    async with connect(server.uri) as client:
        await fill(client, LONG, hasher)
        assert await digest(client, LONG * MIB) == hasher.hexdigest()
    server.kill()
    server.start()
    async with connect(server.uri) as client:
        assert await digest(client, LONG * MIB) == hasher.hexdigest()
    assert server.stop() == 0


@pytest.mark.slow
async def test_a_kill_in_the_middle_of_tiering_changes_no_byte(server):
    chance = random.Random(7)
    hasher, kills = hashlib.sha256(), {chance.randrange(40, 300) for _ in range(3)}
    async with connect(server.uri) as client:
        await client.create_scope("demo")
        await client.create_stream("demo", "bytes")
    number, length = 0, 0
    source = list(blocks(4 * 80))
    while number < len(source):
        async with connect(server.uri) as client, client.byte_writer("demo", "bytes") as writer:
            while number < len(source):
                await writer.write(source[number])
                hasher.update(source[number])
                length += len(source[number])
                number += 1
                if number in kills:
                    break
        server.kill()
        server.start()
        async with connect(server.uri) as client:
            assert await digest(client, length) == hasher.copy().hexdigest()
    assert "DataCorruptionError" not in server.log()


async def read_until_refused(client, expected, stream="bytes"):
    """Read everything that comes; whatever comes is right. Return how much came and why no more."""
    found = 0
    try:
        async with client.byte_reader("demo", stream, config=IMPATIENT) as reader:
            while found < len(expected):
                data = await reader.read(MIB)
                assert data == expected[found : found + len(data)]
                found += len(data)
    except HeadraceError as error:
        return found, error
    return found, None


@pytest.fixture
async def stored(server):
    """A server whose stream of 24 MiB is in chunks, and not in any memory."""
    expected = b"".join(blocks(4 * 24))
    async with connect(server.uri) as client:
        await fill(client, 24, hashlib.sha256())
        async with asyncio.timeout(60):
            while sum(path.stat().st_size for path in chunks_of(server, "bytes")) < len(expected):  # noqa: ASYNC110
                await asyncio.sleep(0.05)  # nothing tells us that a file has grown
    assert server.stop() == 0
    return server, expected


@pytest.mark.slow
async def test_a_flipped_byte_in_a_chunk_is_never_served(stored):
    server, expected = stored
    server.start()
    path = chunks_of(server, "bytes")[0]
    at = path.stat().st_size // 2
    with path.open("r+b") as file:
        byte = os.pread(file.fileno(), 1, at)[0]
        os.pwrite(file.fileno(), bytes([byte ^ 1]), at)
    async with connect(server.uri) as client:
        found, error = await read_until_refused(client, expected)
        assert error is not None
        assert found < len(expected)
        # Others are served, and so is this stream's tail.
        await client.create_stream("demo", "other")
        async with client.event_writer("demo", "other") as writer:
            await writer.write(b"still here", "key")
        async with client.byte_writer("demo", "bytes") as writer:
            await writer.write(b"tail")
    told = [line for line in server.log().splitlines() if "ERROR" in line and "damaged data" in line]
    assert any(path.name.removesuffix(".chunk") in line for line in told)  # which object
    with path.open("r+b") as file:  # mending it brings everything back
        os.pwrite(file.fileno(), bytes([byte]), at)
    async with connect(server.uri) as client:
        assert await read_until_refused(client, expected + b"tail") == (len(expected) + 4, None)


@pytest.mark.slow
async def test_a_chunk_that_vanished_is_never_taken_for_an_end(stored):
    server, expected = stored
    path = chunks_of(server, "bytes")[0]
    aside = path.with_name("aside")
    path.rename(aside)
    server.start()
    async with connect(server.uri) as client:
        found, error = await read_until_refused(client, expected)
        assert error is not None
        assert found < len(expected)
    aside.rename(path)
    async with connect(server.uri) as client:
        assert await read_until_refused(client, expected) == (len(expected), None)


@soak
@pytest.mark.slow
async def test_the_log_stays_short_while_a_gigabyte_passes_through(server):
    log = server.directory / "data" / "wal"
    largest = 0

    def look(number):
        nonlocal largest
        if number % 64 == 0:
            largest = max(largest, directory_bytes(log))

    hasher = hashlib.sha256()
    async with connect(server.uri) as client:
        await fill(client, 1024, hasher, on_progress=look)
        assert await digest(client, 1024 * MIB) == hasher.hexdigest()
    # At most: bytes that are not stored yet (192 MiB), two checkpoints' distance (128), four spare files and
    # the next one (320). A busy machine comes near it, an idle one stays far below.
    assert largest < 700 * MIB
