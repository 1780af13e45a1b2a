"""A whole container over damaged files: what it cannot prove it does not serve, and never calls it absent.

Every bit of its chunks and every length of them is tried through the read path of a recovered container. Its
log on files is damaged at many places, and the container recovered over each: it says where, or serves
exactly what was acknowledged.
"""

import contextlib
import itertools
import random
import shutil
from dataclasses import replace

import pytest

from headrace.errors import CorruptionError, DataCorruptionError, HeadraceError, NoSuchSegmentError
from headrace.limits import KIB, MIB
from headrace.runtime.clock import SystemClock
from headrace.runtime.entropy import SystemEntropy
from headrace.segmentstore.container.components import ContainerComponents
from headrace.segmentstore.container.config import ContainerConfig
from headrace.segmentstore.container.container import SegmentContainer
from headrace.segmentstore.readindex.cache.cache import BlockCache
from headrace.segmentstore.readindex.cache.eviction_policy import CacheConfig
from headrace.segmentstore.storagewriter.config import StorageWriterConfig
from headrace.storage.chunks.config import SegmentStorageConfig
from headrace.storage.providers.memory import MemoryChunkProvider
from headrace.wal.config import WalConfig
from headrace.wal.file import FileWal
from headrace.wal.memory import MemoryLogStore, MemoryWal
from tests.unit.storage.chunks_at_hand import ChunksAtHand

SEGMENT = "scope/stream/0.#epoch.0"
CONFIG = replace(
    ContainerConfig(),
    storage=replace(SegmentStorageConfig(), rollover_bytes=64, block_bytes=16),
    storage_writer=replace(StorageWriterConfig(), change_age_s=0.01, checkpoint_age_s=0.01),
)
SMALL_LOG = WalConfig(
    frame_bytes_max=8 * KIB, frames_max=12, segment_file_bytes=64 * KIB, zero_step_bytes=16 * KIB
)
PIECES = [bytes([number]) * (20 + number) + b"%04d" % number for number in range(1, 8)]
CONTENT = b"".join(PIECES)


class Host:
    """Starts containers, one after the other, on the same chunks and the log that ``make_wal`` opens."""

    def __init__(self, make_wal, chunks=None):
        self.make_wal = make_wal
        self.objects = MemoryChunkProvider()
        self.chunks = ChunksAtHand(self.objects) if chunks is None else chunks
        self.container = None

    async def start(self):
        components = ContainerComponents(
            wal=self.make_wal(),
            chunks=self.chunks,
            cache=BlockCache(CacheConfig(bytes_max=16 * MIB)),
            clock=SystemClock(),
            entropy=SystemEntropy(),
        )
        self.container = SegmentContainer(0, components, CONFIG, lambda *_: None)
        await self.container.start()

    async def stop(self):
        container, self.container = self.container, None
        if container is not None:
            await container.stop()

    async def fill(self, *, store):
        """Append the pieces; with ``store`` all of it ends up in chunks and none of it in the log."""
        segment = await self.container.create(SEGMENT, {})
        for piece in PIECES:
            await self.container.append(segment, piece)
            if store:
                await self.container.flush_storage()
        if store:
            await self.container.log.write_checkpoint()
            await self.container.flush_storage()

    async def read(self, offset=0):
        """Return everything from ``offset`` on, asked for in as many reads as it takes."""
        segment = await self.container.resolve(SEGMENT)
        found = b""
        while offset + len(found) < segment.durable_length:
            result = await self.container.read(segment, offset + len(found), KIB, wait=False)
            data = result.to_bytes()
            assert data, "nothing was read in front of the tail"
            found += data
        return found


@pytest.fixture
async def stored():
    """A recovered container whose bytes are in chunks only, and not in its cache."""
    logs = MemoryLogStore()
    host = Host(lambda: MemoryWal(logs, "c0", SMALL_LOG))
    await host.start()
    await host.fill(store=True)
    await host.stop()
    await host.start()
    yield host
    await host.stop()


async def outcome(host, offset=0):
    """Return what a read gives: bytes, or the kind of the error."""
    try:
        return await host.read(offset)
    except CorruptionError:
        return "corrupt"


def chunks_of(host):
    """Return name, start offset and content of the chunks that hold the segment, in order."""
    found = []
    offset = 0
    while offset < len(CONTENT):
        name, data = next(
            (name, data)
            for name, data in host.objects.objects.items()
            if data and bytes(data) == CONTENT[offset : offset + len(data)]
        )
        found.append((name, offset, data))
        offset += len(data)
    return found


async def test_no_bit_of_a_chunk_can_flip_unnoticed_and_healing_it_is_enough(stored):
    chunks = chunks_of(stored)
    assert len(chunks) > 3
    tried = 0
    for _, start, data in chunks:
        for position in range(len(data)):
            for bit in range(8):
                data[position] ^= 1 << bit
                assert await outcome(stored, start + position) == "corrupt"
                data[position] ^= 1 << bit
                tried += 1
    assert tried == 8 * len(CONTENT)
    assert await outcome(stored) == CONTENT  # nothing wrong was kept


async def test_a_chunk_cut_at_any_byte_is_damage_not_an_end(stored):
    for name, start, data in chunks_of(stored):
        for length in range(len(data)):
            stored.objects.objects[name] = data[:length]
            assert await outcome(stored, start) == "corrupt"
        del stored.objects.objects[name]
        assert await outcome(stored, start) == "corrupt"
        stored.objects.objects[name] = data
    assert await outcome(stored) == CONTENT


async def test_a_chunk_in_place_of_another_is_noticed(stored):
    chunks = chunks_of(stored)
    for name, start, data in chunks:
        for _, _, other in chunks:
            if other is not data:
                stored.objects.objects[name] = bytearray(other)
                assert await outcome(stored, start) == "corrupt"
        stored.objects.objects[name] = data
    assert await outcome(stored) == CONTENT


@pytest.mark.parametrize("seed", range(4))
async def test_a_container_recovered_over_a_damaged_chunk_knows_no_more_than_the_one_before(stored, seed):
    chance = random.Random(seed)
    _, start, data = chance.choice(chunks_of(stored))
    position = chance.randrange(len(data))
    data[position] ^= 1 << chance.randrange(8)
    for _ in range(2):
        await stored.stop()
        await stored.start()
        assert (await stored.container.read_info(SEGMENT)).length == len(CONTENT)
        assert await outcome(stored, start + position) == "corrupt"
        if start:
            found = await stored.container.read(
                await stored.container.resolve(SEGMENT), 0, min(start, 16), wait=False
            )
            assert found.to_bytes() == CONTENT[: min(start, 16)]


# ---- the log under it


class FilledLog:
    """The files of a log that a container has written and closed, or left behind as a killed one does."""

    def __init__(self, directory, files):
        self.directory = directory
        self.files = files

    def restore(self):
        shutil.rmtree(self.directory, ignore_errors=True)
        self.directory.mkdir()
        for name, data in self.files.items():
            (self.directory / name).write_bytes(data)

    def write(self, name, data):
        (self.directory / name).write_bytes(data)

    def places(self, chance):
        """Yield file and offset without end: half of them anywhere, half where something is written."""
        for number in itertools.count():
            name = chance.choice(sorted(self.files))
            data = self.files[name]
            written = [at for at in range(0, len(data), 64) if any(data[at : at + 64])]
            yield (
                name,
                (
                    chance.randrange(len(data))
                    if number % 2
                    else chance.choice(written) + chance.randrange(64)
                ),
            )


async def fill_log(tmp_path):
    directory = tmp_path / "log"
    host = Host(lambda: FileWal(str(directory), SMALL_LOG))
    await host.start()
    await host.fill(store=False)
    await host.stop()
    return host, FilledLog(directory, {path.name: path.read_bytes() for path in directory.iterdir()})


async def judge(host):
    """Recover a container: it is refused with a place, or serves what was acknowledged."""
    try:
        await host.start()
        found = await host.read()
    except DataCorruptionError as error:
        return "refused" if error.path is not None else f"refused without a place: {error}"
    except NoSuchSegmentError:
        return "lost"
    except HeadraceError as error:
        return f"{type(error).__name__}: {error}"
    finally:
        with contextlib.suppress(HeadraceError):
            await host.stop()
    return "served" if found == CONTENT else "lost"


@pytest.mark.slow
async def test_a_container_is_refused_or_serves_everything_over_a_log_with_any_bit_flipped(tmp_path):
    host, log = await fill_log(tmp_path)
    chance = random.Random(1)
    outcomes = {"refused": 0, "served": 0}
    for number, (name, offset) in enumerate(log.places(chance)):
        # how much of the log is in use varies: a slow machine checkpoints and cuts it more often
        if number >= 120 and min(outcomes.values()) > 20:
            break
        assert number < 1200, f"either hardly anything is noticed, or nothing harmless: {outcomes}"
        log.restore()
        data = bytearray(log.files[name])
        data[offset] ^= 1 << chance.randrange(8)
        log.write(name, bytes(data))
        outcomes[await judge(host)] += 1
    log.restore()
    assert await judge(host) == "served"


async def test_a_container_is_refused_over_a_log_that_was_cut_anywhere(tmp_path):
    host, log = await fill_log(tmp_path)
    chance = random.Random(2)
    for name, offset in itertools.islice(log.places(chance), 60):
        log.restore()
        log.write(name, log.files[name][:offset])
        in_owner = name == "owner"  # half of it may go without loss
        assert await judge(host) in ({"refused", "served"} if in_owner else {"refused"})
    log.restore()
    assert await judge(host) == "served"
