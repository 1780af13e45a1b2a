"""The log fails right before and right after each of its writes while segments leave memory and come back."""

import asyncio

import pytest

from headrace.errors import ContainerOfflineError, HeadraceError, NoSuchSegmentError, WalWriteError
from headrace.wal.memory import MemoryWal
from tests.effort import stride
from tests.unit.segmentstore.container.container_bench import Bench, append, read_all

NAMES = ("s/a", "s/b", "s/c")


class EndingWal(MemoryWal):
    """Fails at a write, which is durable or not, and at all later ones."""

    writes = 0
    fails_at = None
    is_durable = False

    def append(self, frame, done):
        self.writes += 1
        if self.fails_at is None or self.writes < self.fails_at:
            super().append(frame, done)
        elif self.writes == self.fails_at and self.is_durable:
            super().append(frame, lambda frame, _: done(frame, WalWriteError("the reply was lost")))
        else:
            asyncio.get_running_loop().call_soon(done, frame, WalWriteError("the log is gone"))


class Life:
    """Does one thing after the other, and knows what each segment must be after it."""

    def __init__(self, bench):
        self.bench = bench
        self.model = {}
        self.next = {}

    async def step(self, change, call):
        """``change`` is what ``call`` makes of the model."""
        self.next = {**self.model, **change}
        await call
        self.model = self.next

    async def create(self, name):
        await self.step({name: (b"", False)}, self.bench.container.create(name, {}))

    async def append(self, name, data):
        known, sealed = self.model[name]
        await self.step({name: (known + data, sealed)}, append(self.bench.container, name, data))

    async def seal(self, name):
        segment = await self.bench.container.resolve(name)
        await self.step({name: (self.model[name][0], True)}, self.bench.container.seal(segment))

    async def delete(self, name):
        segment = await self.bench.container.resolve(name)
        await self.step({name: None}, self.bench.container.delete(segment))

    async def merge(self, target, source):
        content = self.model[target][0] + self.model[source][0]
        segment = await self.bench.container.resolve(target)
        merging = self.bench.container.merge(segment, source)
        await self.step({target: (content, False), source: None}, merging)

    async def run(self):
        for name in NAMES:
            await self.create(name)
            await self.append(name, name.encode())
        await self.bench.evict(*NAMES)
        await self.append("s/a", b"1")
        await self.bench.evict("s/a")
        await self.delete("s/b")
        await self.create("s/b")
        await self.bench.evict("s/b")
        await self.append("s/b", b"2")
        await self.merge("s/a", "s/c")
        await self.bench.evict("s/a", "s/b")
        await self.create("s/c")
        await self.seal("s/a")
        await self.bench.evict(*NAMES)
        await self.append("s/c", b"3")
        await self.delete("s/a")
        await self.bench.evict("s/b", "s/c")


async def look(container, name):
    try:
        return await read_all(container, name), (await container.read_info(name)).sealed
    except NoSuchSegmentError:
        return None


async def end_at(fails_at, *, is_durable):
    """Run until the log fails; recover twice, evict everything, and find each segment as it must be."""
    bench, wals = Bench(), []

    def make_wal(*args):
        wal = EndingWal(*args)
        wal.is_durable = is_durable
        wals.append(wal)
        return wal

    bench.make_wal = make_wal
    container = await bench.start()
    started = wals[0].writes
    wals[0].fails_at = None if fails_at is None else started + fails_at
    life = Life(bench)
    try:
        async with asyncio.timeout(120):
            await life.run()
        ended = False
    except HeadraceError:
        ended = True
    writes = wals[0].writes - started
    if fails_at is not None:
        assert ended or bench.failures or writes < fails_at
    found = None
    for _ in range(2):
        container = await bench.start()
        now = {name: await look(container, name) for name in NAMES}
        for name in NAMES:
            assert now[name] in (life.model.get(name), life.next.get(name)), (fails_at, name)
        if now["s/a"] and now["s/c"]:  # a merge is whole or has not happened
            assert not now["s/a"][0].endswith(now["s/c"][0]) or now["s/c"][0] in (b"", b"3"), fails_at
        assert found in (None, now)
        found = now
    await bench.evict(*(name for name in NAMES if found[name]))
    for name in NAMES:
        assert await look(container, name) == found[name]
        if found[name] is not None:
            await container.delete(await container.resolve(name))
        await container.create(name, {})
        assert await look(container, name) == (b"", False)
    await bench.evict(*NAMES)
    container = await bench.start()
    for name in NAMES:
        assert await look(container, name) == (b"", False)
    await bench.stop()
    return writes


@pytest.mark.slow
@pytest.mark.parametrize("is_durable", [False, True])
async def test_whatever_the_last_durable_write_was_each_segment_is_as_its_callers_know_it(is_durable):
    writes = await end_at(None, is_durable=is_durable)
    assert writes > 40
    ends = range(1 + is_durable, writes + 1, stride(2))
    for first in range(0, len(ends), 10):  # each has a world of its own, and mostly waits
        some = ends[first : first + 10]
        await asyncio.gather(*(end_at(fails_at, is_durable=is_durable) for fails_at in some))


@pytest.mark.parametrize("is_durable", [False, True])
async def test_who_asks_for_a_segment_while_the_log_fails_is_told_to_ask_again(is_durable):
    bench, wals = Bench(), []

    def make_wal(*args):
        wals.append(EndingWal(*args))
        wals[-1].is_durable = is_durable
        return wals[-1]

    bench.make_wal = make_wal
    container = await bench.start()
    await container.create("s/a", {})
    await append(container, "s/a", b"a")
    await bench.evict("s/a")
    wals[0].fails_at = wals[0].writes + 1
    with pytest.raises(ContainerOfflineError, match="s/a"):
        await container.resolve("s/a")
    container = await bench.start()
    assert await read_all(container, "s/a") == b"a"
    await bench.stop()
