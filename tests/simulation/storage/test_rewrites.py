"""Chunks are rewritten while their segments are written, truncated, joined, deleted and read, garbage is
deleted at once, calls fail in every way, and owners die at any call. The model is what each segment holds.
"""

import asyncio
import contextlib
import random

import pytest

from headrace.errors import (
    DataCorruptionError,
    HeadraceError,
    InvalidArgumentError,
    NoSuchSegmentError,
    SegmentTruncatedError,
)
from headrace.runtime.entropy import SeededEntropy
from headrace.storage.chunks.config import SegmentStorageConfig
from headrace.storage.chunks.segment_layout import load_layout, walk_chunks
from headrace.storage.chunks.segment_storage import ChunkedSegmentStorage
from headrace.storage.metadata.rows import CHECKSUM_PREFIX, CHUNK_PREFIX
from headrace.storage.providers.memory import MemoryChunkProvider
from headrace.storage.providers.wrappers.token_bucket import RequestBudget
from headrace.testing.failures import ProcessGoneError
from headrace.testing.memory_row_store import MemoryRowStore
from headrace.testing.simulation import simulate
from headrace.testing.storage_faults import Fault, FaultyChunkProvider, FaultyRowStore
from tests.effort import seeds

SEGMENTS = ("s/t/0.1", "s/t/1.2")
ROUNDS = 30


class SlowRows(FaultyRowStore):
    """Readers see a commit before its caller does, as they do with a log."""

    def __init__(self, rows, choices):
        super().__init__(rows)
        self._choices = choices

    async def commit(self, changes):
        await super().commit(changes)
        await asyncio.sleep(self._choices.choice((0, 0, 0.01, 0.05)))


class World:
    """Objects, rows and the model, which outlive owners."""

    def __init__(self, choices, *, supports_append):
        self.choices = choices
        self.objects = MemoryChunkProvider(supports_append=supports_append)
        self.provider = FaultyChunkProvider(self.objects)
        self.provider.delay_s = lambda _: choices.choice((0, 0.001, 0.01, 0.1))
        self.table = MemoryRowStore(forgets=choices.random() < 0.5)
        self.rows = SlowRows(self.table, choices)
        self.config = SegmentStorageConfig(
            rollover_bytes=choices.choice((48, 300)),
            block_bytes=choices.choice((4, 16)),
            concat_copy_bytes_max=choices.choice((0, 20)),
            garbage_delay_s=choices.choice((0.0, 0.05)),
            garbage_batch_chunks=8,
            layouts_max=choices.choice((1, 100)),
            walk_rows_max=2,
            merge_bytes_max=choices.choice((32, 100)),
            merge_chunks_min=choices.choice((2, 3)),
        )
        self.content = {name: bytearray() for name in SEGMENTS}
        self.epoch = 0
        self.sources = 0
        self.death = choices.choice((0.0, 0.0005, 0.004))
        self.damage = []
        self.rewrites = 0

    def inject(self, call):
        """A fault for some calls; the death of the owner for very few."""
        number = self.choices.random()
        if number < self.death:
            return self.choices.choice((Fault.DIE_BEFORE, Fault.DIE_TORN, Fault.DIE_AFTER))
        if number < 0.05 and call.kind != "commit":
            return self.choices.choice((Fault.FAIL, Fault.LOSE_REPLY, Fault.TEAR, Fault.FULL))
        return None


class Owner:
    """One container epoch: all that goes on at the same time."""

    def __init__(self, world):
        self.world = world
        world.epoch += 1
        self.storage = ChunkedSegmentStorage(
            world.provider, world.rows, world.epoch, SeededEntropy(world.epoch), world.config
        )

    async def run(self):
        world = self.world
        await self.adopt()
        world.provider.inject = world.rows.inject = world.inject
        rewriters = [self.storage.make_rewriter(), self.storage.make_rewriter(RequestBudget(300, 100_000))]
        try:
            async with asyncio.TaskGroup() as tasks:
                for name in SEGMENTS:
                    tasks.create_task(self.modify(name))
                    tasks.create_task(self.read(name))
                    for rewriter in rewriters:
                        tasks.create_task(self.rewrite(name, rewriter))
                tasks.create_task(self.collect())
        except* ProcessGoneError:
            pass
        finally:
            world.provider.inject = world.rows.inject = lambda _: None
            world.rewrites += sum(rewriter.statistics.rewrites for rewriter in rewriters)

    async def adopt(self):
        """See what of the last calls of a former owner has happened."""
        for name in SEGMENTS:
            info = await self.storage.info(name)
            del self.world.content[name][0 if info is None else info.length :]

    async def modify(self, name):
        choices = self.world.choices
        for _ in range(ROUNDS):
            changes = (self.write, self.truncate, self.join, self.delete)
            (change,) = choices.choices(changes, (60, 15, 25, 2))
            try:
                await change(name)
            except HeadraceError:
                await self.look(name)
            await asyncio.sleep(choices.choice((0, 0.01, 0.2)))

    async def look(self, name):
        """After an unknown outcome: storage says what it has."""
        info = await self.storage.info(name)
        del self.world.content[name][0 if info is None else info.length :]

    async def write(self, name):
        content = self.world.content[name]
        offset = len(content)
        content += self.world.choices.randbytes(self.world.choices.choice((1, 3, 10, 60)))
        await self.storage.write(name, offset, [bytes(content[offset:])], create=True)

    async def truncate(self, name):
        length = len(self.world.content[name])
        if not length:
            return
        await self.storage.truncate(name, self.world.choices.randint(0, length))

    async def join(self, name):
        content = self.world.content[name]
        if not content:
            return
        self.world.sources += 1
        source = f"{name.rpartition('.')[0]}#transaction.{self.world.sources}.{self.world.sources:x}"
        data = self.world.choices.randbytes(self.world.choices.choice((2, 15, 40, 90)))
        half = len(data) // 2
        await self.storage.write(source, 0, [data[:half]], create=True)
        await self.storage.write(source, half, [data[half:]])
        await self.storage.seal(source)
        offset = len(content)
        content += data
        await self.storage.concat(name, offset, source)

    async def delete(self, name):
        await self.storage.delete(name)
        self.world.content[name].clear()

    async def read(self, name):
        world, choices = self.world, self.world.choices
        for _ in range(3 * ROUNDS):
            await asyncio.sleep(choices.choice((0, 0.005, 0.05)))
            try:
                info = await self.storage.info(name)
                if info is None or info.length == info.start_offset:
                    continue
                begin = choices.randint(info.start_offset, info.length - 1)
                length = choices.randint(1, info.length - begin)
                expected = bytes(world.content[name][begin : begin + length])
                data = bytes(await self.storage.read_some(name, begin, length))
            except (SegmentTruncatedError, NoSuchSegmentError, InvalidArgumentError):
                continue  # it was changed meanwhile
            except DataCorruptionError as error:
                world.damage.append(str(error))
                continue
            except HeadraceError:
                continue
            if len(expected) >= len(data):  # else it was deleted and made again
                now = world.content[name][begin : begin + len(data)]
                if data not in (expected[: len(data)], now):
                    world.damage.append(f"{name}: other bytes at {begin}")

    async def rewrite(self, name, rewriter):
        choices = self.world.choices
        place = 0
        for _ in range(2 * ROUNDS):
            try:
                if choices.random() < 0.2:
                    await rewriter.drop_truncated(name)
                else:
                    step = await rewriter.merge_some(name, place)
                    place = 0 if step.is_done else step.place
            except NoSuchSegmentError:
                place = 0
            except DataCorruptionError as error:
                self.world.damage.append(str(error))
            except HeadraceError:
                pass
            await asyncio.sleep(choices.choice((0, 0.01, 0.1)))

    async def collect(self):
        for _ in range(3 * ROUNDS):
            with contextlib.suppress(HeadraceError):
                await self.storage.garbage.collect()
            await asyncio.sleep(self.world.choices.choice((0, 0.02)))

    async def check_all(self):
        """Without faults: every segment is what the model says, and nothing else is there in the end."""
        world = self.world
        await self.adopt()
        rewriter = self.storage.make_rewriter()
        for name in SEGMENTS:
            info = await self.storage.info(name)
            if info is None:
                continue
            place = 0
            while not (step := await rewriter.merge_some(name, place)).is_done:
                place = step.place
            await rewriter.drop_truncated(name)
            length = info.length - info.start_offset
            data = await self.storage.read_stored(name, info.start_offset, length)
            assert data == world.content[name][info.start_offset :]
        await self.storage.garbage.collect_orphans()
        await self.storage.garbage.collect()  # which begins the delay of what former owners left
        await asyncio.sleep(1)
        while await self.storage.garbage.collect():
            pass
        used = set()
        for key in world.table.keys("s/"):
            layout = load_layout(key[2:], world.table.rows.get)
            chunks = list(walk_chunks(layout, world.table.rows.get))
            assert len(chunks) == layout.chunk_count
            used |= {chunk.name for chunk, _ in chunks}
            if key[2:] in SEGMENTS:
                assert layout.first_chunk_start == layout.start_offset
        assert set(world.objects.objects) == used
        assert {key.removeprefix(CHUNK_PREFIX) for key in world.table.keys(CHUNK_PREFIX)} == used
        assert {key[2:].rpartition("/")[0] for key in world.table.keys(CHECKSUM_PREFIX)} <= used


async def live_and_die(seed, *, supports_append):
    choices = random.Random(seed)
    world = World(choices, supports_append=supports_append)
    for _ in range(choices.randint(1, 3)):
        await Owner(world).run()
    await Owner(world).check_all()
    assert world.damage == []
    return world.rewrites


@pytest.mark.slow
@pytest.mark.parametrize("supports_append", [True, False])
def test_whatever_happens_beside_rewrites_each_segment_holds_its_bytes_and_no_object_is_left(supports_append):
    rewrites = 0
    for seed in seeds(12):

        async def scenario(_, seed=seed):
            return await live_and_die(seed, supports_append=supports_append)

        rewrites += simulate(seed, scenario).value
    assert rewrites > 0
