"""Power is lost before, within and after every durable write of the filesystem provider."""

import asyncio
import contextlib

from headrace.runtime.entropy import SeededEntropy
from headrace.storage.chunks.config import SegmentStorageConfig
from headrace.storage.chunks.segment_storage import ChunkedSegmentStorage
from headrace.storage.providers.files.chunk_threads import ChunkThreads
from headrace.storage.providers.files.filesystem import FilesystemChunkProvider
from headrace.testing.crash_points import each_power_loss
from headrace.testing.failures import ProcessGoneError
from headrace.testing.filesystem import SimulatedFilesystem
from headrace.testing.memory_row_store import MemoryRowStore

ROOT = "/data/chunks"
CONFIG = SegmentStorageConfig(
    rollover_bytes=3000, block_bytes=512, concat_copy_bytes_max=100, garbage_delay_s=0
)


class InlineWork:
    """Performs blocking work at once: the order of disk calls is then the order of the code."""

    async def run(self, fn, *args):
        return fn(*args)


def open_provider(disk):
    return FilesystemChunkProvider(ROOT, SimulatedFilesystem(disk), ChunkThreads.shared(InlineWork()))


def run(scenario):
    # Closing a file of a dead process dies as well, in place of the call that met the power loss.
    with contextlib.suppress(ProcessGoneError):
        asyncio.run(scenario)


def make_root(disk):
    files = SimulatedFilesystem(disk)
    files.mkdir(ROOT)
    for directory in ("/data", "/"):
        files.fsync_directory(directory)


def test_every_answered_create_and_append_survives_a_power_loss():
    answered: dict[str, bytes] = {}

    async def write(disk):
        answered.clear()
        make_root(disk)
        provider = open_provider(disk)
        for name in ["s/t/a", "s/t/b", "s/u/c", "d"]:
            await provider.create(name, [b"x" * 700])
            answered[name] = b"x" * 700
            for _ in range(2):
                await provider.append(name, len(answered[name]), [b"y" * 300, b"z" * 600])
                answered[name] += b"y" * 300 + b"z" * 600
            if name == "s/t/b":
                await provider.delete("s/t/a")
                del answered["s/t/a"]

    async def check(disk, point):
        provider = open_provider(disk)
        for name, content in answered.items():
            assert await provider.read(name, 0, len(content)) == content, point

    points = 0
    for point, disk in each_power_loss(lambda disk: run(write(disk))):
        asyncio.run(check(disk, point))
        points += 1
    assert points > 100


def test_committed_segments_survive_a_power_loss_and_the_next_owner_goes_on():
    rows = MemoryRowStore()
    expected: dict[str, bytearray] = {}
    entropy = SeededEntropy(5)

    async def write(storage, name, data):
        info = storage.info_nowait(name)
        await storage.write(name, info.length if info else 0, [data], create=True)
        expected.setdefault(name, bytearray()).extend(data)

    async def scenario(disk):
        rows.rows.clear()
        expected.clear()
        make_root(disk)
        storage = ChunkedSegmentStorage(open_provider(disk), rows, 1, SeededEntropy(1), CONFIG)
        await write(storage, "s", b"a" * 2000)
        await write(storage, "s", b"b" * 2000)
        await write(storage, "t", b"c" * 1500)
        await storage.seal("t")
        await storage.concat("s", 4000, "t")
        expected["s"] += expected.pop("t")
        await storage.truncate("s", 3100)
        await storage.garbage.collect()
        await write(storage, "s", b"d" * 600)

    async def check(disk, point):
        storage = ChunkedSegmentStorage(open_provider(disk), rows, 2, entropy, CONFIG)
        for name, content in expected.items():
            info = storage.info_nowait(name)
            assert info is not None
            data = await storage.read_stored(name, info.start_offset, len(content) - info.start_offset)
            assert data == content[info.start_offset :], point
            assert info.length >= len(content)
        await storage.garbage.collect_orphans()
        await storage.write("new", 0, [b"e" * 4000], create=True)
        assert await storage.read_stored("new", 0, 4000) == b"e" * 4000

    points = 0
    for point, disk in each_power_loss(lambda disk: run(scenario(disk)), seeds=range(2)):
        asyncio.run(check(disk, point))
        points += 1
    assert points == 2 * 3 * 11


def test_a_rewrite_that_lost_power_has_happened_or_not_and_leaves_no_object_behind():
    rows = MemoryRowStore()
    written = bytearray()

    async def scenario(disk):
        rows.rows.clear()
        written.clear()
        make_root(disk)
        for epoch in range(1, 5):  # each begins a chunk
            storage = ChunkedSegmentStorage(open_provider(disk), rows, epoch, SeededEntropy(epoch), CONFIG)
            await storage.write("s", len(written), [bytes([epoch]) * 600], create=True)
            written.extend(bytes([epoch]) * 600)
        await storage.truncate("s", 100)
        await storage.seal("s")
        rewriter, place = storage.make_rewriter(), 0
        while not (step := await rewriter.merge_some("s", place)).is_done:
            place = step.place
        assert rewriter.statistics.rewrites == 1
        await storage.garbage.collect()

    async def check(disk, point):
        provider = open_provider(disk)
        storage = ChunkedSegmentStorage(provider, rows, 5, SeededEntropy(5), CONFIG)
        if (info := storage.info_nowait("s")) is None:
            return
        data = await storage.read_stored("s", info.start_offset, len(written) - info.start_offset)
        assert data == written[info.start_offset :], point
        await storage.make_rewriter().drop_truncated("s")
        await storage.garbage.collect_orphans()
        while await storage.garbage.collect():
            pass
        left = [found.name async for page in provider.list() for found in page]
        assert sorted(left) == sorted(chunk.name for chunk in storage.chunks("s")), point

    points = 0
    for point, disk in each_power_loss(lambda disk: run(scenario(disk)), seeds=range(2)):
        asyncio.run(check(disk, point))
        points += 1
    assert points > 40
