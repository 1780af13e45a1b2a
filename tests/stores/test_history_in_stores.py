"""A whole server on each store: what left its cache, and what a kill interrupted, comes back byte by byte."""

import hashlib
import random

import pytest

from headrace.client import connect
from headrace.limits import MIB
from headrace.testing import LocalServer
from tests.stores.providers import provider_at
from tests.stores.servers import GOOD, on

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

SETTINGS = """
cache_bytes = "16 MiB"
[container]
unstored_bytes_max = "8 MiB"
checkpoint_bytes = "16 MiB"
[container.storage_writer]
flush_age_s = 1
"""
BLOCKS = 4 * 24
BLOCK_BYTES = 256 << 10


async def write(client, stream, blocks):
    async with client.byte_writer("demo", stream) as writer:
        for block in blocks:
            await writer.write(block)


async def digest(client, stream, length):
    hasher = hashlib.sha256()
    async with client.byte_reader("demo", stream) as reader:
        while length:
            data = await reader.read(min(length, MIB))
            assert data
            hasher.update(data)
            length -= len(data)
    return hasher.hexdigest()


@on(GOOD)
async def test_history_comes_back_from_the_store_after_a_kill(server, tmp_path):
    uri = server.uri("history")
    (tmp_path / "headrace.toml").write_text(SETTINGS)
    options = ["--containers", "1", "--config", str(tmp_path / "headrace.toml"), "--storage", uri]
    chance = random.Random(1)
    blocks = [chance.randbytes(BLOCK_BYTES) for _ in range(BLOCKS)]
    expected = hashlib.sha256(b"".join(blocks)).hexdigest()
    with LocalServer(tmp_path / "server", *options) as headrace:
        async with connect(headrace.uri) as client:
            await client.create_scope("demo")
            await client.create_stream("demo", "bytes")
            await write(client, "bytes", blocks[: BLOCKS // 2])
        headrace.kill()
        headrace.start()
        async with connect(headrace.uri) as client:
            await write(client, "bytes", blocks[BLOCKS // 2 :])
            assert await digest(client, "bytes", BLOCKS * BLOCK_BYTES) == expected
        headrace.restart()
        async with connect(headrace.uri) as client:
            assert await digest(client, "bytes", BLOCKS * BLOCK_BYTES) == expected
        assert headrace.stop() == 0
        lengths = [each.length async for page in provider_at(uri).list() for each in page]
        assert sum(lengths) >= BLOCKS * BLOCK_BYTES
