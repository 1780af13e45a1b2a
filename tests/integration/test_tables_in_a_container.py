"""Table segments on a real container: log, read index, storage writer, chunks, recovery."""

import asyncio
import dataclasses
import random

import pytest

from headrace.errors import (
    ContainerOfflineError,
    OwnershipError,
    TableKeyMissingError,
    TableKeyVersionError,
    UnknownOutcomeError,
)
from headrace.limits import KIB, MIB
from headrace.model.tables import NO_VERSION, NOT_EXISTS, TableEntry, TableKey
from headrace.runtime.clock import SystemClock
from headrace.runtime.entropy import SystemEntropy
from headrace.segmentstore.container.components import ContainerComponents
from headrace.segmentstore.container.config import ContainerConfig
from headrace.segmentstore.container.container import SegmentContainer
from headrace.segmentstore.readindex.cache.cache import BlockCache
from headrace.segmentstore.readindex.cache.eviction_policy import CacheConfig
from headrace.segmentstore.tables.config import TablesConfig, UnindexedConfig
from headrace.storage.providers.memory import MemoryChunkProvider
from headrace.wal.config import WalConfig
from headrace.wal.memory import MemoryLogStore, MemoryWal
from tests.effort import sampled

pytestmark = pytest.mark.slow

T = "scope/table"
UPDATES_PER_LIFE = 600


class Host:
    """Starts one container after the other on the same log and chunks."""

    def __init__(self, tables):
        self.logs, self.chunks = MemoryLogStore(), MemoryChunkProvider()
        self.config = dataclasses.replace(ContainerConfig(), tables=tables)
        self.container = None

    async def start(self):
        components = ContainerComponents(
            wal=MemoryWal(self.logs, "c0", WalConfig(frames_max=24)),
            chunks=self.chunks,
            cache=BlockCache(CacheConfig(bytes_max=64 * MIB)),
            clock=SystemClock(),
            entropy=SystemEntropy(),
        )
        self.container = SegmentContainer(0, components, self.config, lambda *_: None)
        await self.container.start()
        return self.container.tables


async def whole(tables):
    found, token = {}, b""
    while True:
        page, token = await tables.entries(T, token, 37)
        if not page:
            return found
        for entry in page:
            assert entry.key not in found
            found[entry.key] = (entry.version, entry.value)


async def follow(tables, position, known):
    """Apply a delta to ``known`` as a client does; returns the new position."""
    while True:
        delta = await tables.delta(T, position, 50)
        if delta.should_clear:
            known.clear()
        known.update({entry.key: (entry.version, entry.value) for entry in delta.entries})
        position = delta.last_position
        if delta.reached_end:
            return position


def check_ends(ends):
    """Nobody was told anything but that the owner is gone."""
    for end in ends:
        assert end is None or isinstance(
            end, OwnershipError | UnknownOutcomeError | asyncio.CancelledError
        ), end


@pytest.mark.parametrize("seed", sampled(range(3), 2))
async def test_a_table_survives_owners_that_stop_and_owners_that_vanish(seed):
    """Eight callers update at once; every life ends orderly or by being fenced in full flight. All tables but
    the first have an index.
    """
    chance = random.Random(seed)
    unindexed = UnindexedConfig(entries_max=40, bytes_max=16 * KIB) if seed else UnindexedConfig()
    host = Host(TablesConfig(compaction_bytes_max=8 * KIB, unindexed=unindexed))
    tables = await host.start()
    await tables.create(T)
    model, unsure = {}, set()
    rounds = index_rounds = 0

    async def caller(tables, which, worked):
        """Owns the keys that end in ``which``; knows their versions exactly unless a call was cut off."""
        while True:
            key = b"%d-%d" % (int(chance.paretovariate(0.7)) % 60, which)
            known = model.get(key, (NOT_EXISTS, b""))[0]
            condition = NO_VERSION if key in unsure else chance.choice([NO_VERSION, known])
            try:
                if chance.random() < 0.2:
                    unsure.add(key)
                    await tables.remove(T, [TableKey(key, condition)])
                    model.pop(key, None)
                else:
                    value = chance.randbytes(chance.choice([0, 10, 300]))
                    unsure.add(key)
                    [version] = await tables.update(T, [TableEntry(key, value, condition)])
                    model[key] = (version, value)
                unsure.discard(key)
                worked()
            except ContainerOfflineError:
                return

    for life in range(6):
        updates = iter(range(UPDATES_PER_LIFE))
        enough = asyncio.Event()

        def worked(updates=updates, enough=enough):
            if next(updates, None) is None:
                enough.set()

        callers = [asyncio.ensure_future(caller(tables, which, worked)) for which in range(8)]
        await enough.wait()
        orderly = life % 2
        old = host.container
        if orderly:
            for each in callers:
                each.cancel()
            check_ends(await asyncio.gather(*callers, return_exceptions=True))
            await old.stop()
        rounds += old.tables.statistics().compaction_rounds
        index_rounds += old.tables.statistics().index_rounds
        tables = await host.start()  # fences the former owner if it still runs
        if not orderly:
            for each in callers:
                each.cancel()
            check_ends(await asyncio.gather(*callers, return_exceptions=True))
        found = await whole(tables)
        # What was acknowledged is there; what was cut off may or may not have happened.
        assert {key: value for key, value in found.items() if key not in unsure} == {
            key: value for key, value in model.items() if key not in unsure
        }
        model = found
        unsure.clear()
        tables.check()
        known = {}
        await follow(tables, 0, known)
        assert {key: known.get(key) for key in found} == found
    assert rounds > 10
    assert index_rounds > 10 if seed else index_rounds == 0
    assert host.container.find_segment(T).start_offset > 0
    await host.container.stop()


async def test_of_a_hundred_who_create_the_same_key_one_wins_on_a_real_log():
    host = Host(TablesConfig())
    tables = await host.start()
    await tables.create(T)
    for turn in range(20):
        key = b"k%d" % turn
        racers = [tables.update(T, [TableEntry(key, b"%d" % n, NOT_EXISTS)]) for n in range(100)]
        results = await asyncio.gather(*racers, return_exceptions=True)
        winners = [n for n, result in enumerate(results) if isinstance(result, list)]
        assert len(winners) == 1
        assert sum(isinstance(result, TableKeyVersionError) for result in results) == 99
        assert (await tables.get(T, [key]))[0].value == b"%d" % winners[0]
    with pytest.raises(TableKeyMissingError):
        await tables.remove(T, [TableKey(b"nothing", 0)])
    await host.container.stop()


async def test_values_come_back_from_chunks_when_they_have_left_the_cache():
    host = Host(TablesConfig())
    tables = await host.start()
    await tables.create(T)
    names = [b"%05d" % n for n in range(2000)]
    for at in range(0, len(names), 100):
        await tables.update(T, [TableEntry(name, name * 100) for name in names[at : at + 100]])
    await host.container.stop()
    tables = await host.start()
    found = await whole(tables)
    assert {key: value for key, (_, value) in found.items()} == {name: name * 100 for name in names}
    await host.container.stop()
