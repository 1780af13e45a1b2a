"""Readers of the real Java client and of ours in one group; ``java_programs.py`` says what they need."""

import asyncio
from collections import Counter, defaultdict

import pytest

from headrace.client import KeyRange, StreamCut, connect
from tests.interop.java_programs import command_of, needs_java_client

pytestmark = [pytest.mark.cluster, pytest.mark.slow, needs_java_client]


class Handled:
    """What the applications of all readers have handled."""

    def __init__(self):
        self.counts = Counter()
        self.by_reader = defaultdict(list)

    def add(self, reader, text):
        self.counts[text] += 1
        self.by_reader[reader].append(int(text))

    async def wait_for(self, count):
        async with asyncio.timeout(90):
            while True:
                if len(self.counts) >= count:
                    return
                await asyncio.sleep(0.1)


class JavaGroup:
    """The program ``Groups``."""

    def __init__(self, process, handled):
        self._process = process
        self._handled = handled
        self._answers = asyncio.Queue()
        self._lines = []
        self._reading = asyncio.create_task(self._read())

    @classmethod
    async def start(cls, handled, *arguments):
        pipes = {"stdin": asyncio.subprocess.PIPE, "stdout": asyncio.subprocess.PIPE}
        started = cls(
            await asyncio.create_subprocess_exec(*command_of("Groups", *arguments), **pipes), handled
        )
        await started._answers.get()
        return started

    async def _read(self):
        while line := (await self._process.stdout.readline()).decode().split():
            if line[0] == "EVENT":
                self._handled.add(line[1], line[2])
            elif line[0] == "DONE":
                self._answers.put_nowait(self._lines)
                self._lines = []
            else:
                self._lines.append(line)

    async def do(self, *words):
        self._process.stdin.write((" ".join(words) + "\n").encode())
        async with asyncio.timeout(60):
            return await self._answers.get()

    async def ask(self):
        """Return the positions, the bytes that are left, and how many segments each reader has."""
        lines = await self.do("ask")
        (cut,) = (StreamCut.from_text(line[1]) for line in lines if line[0] == "CUT")
        (unread,) = (int(line[1]) for line in lines if line[0] == "UNREAD")
        return cut, unread, {line[1]: int(line[2]) for line in lines if line[0] == "READER"}

    async def stop(self):
        self._process.stdin.close()
        async with asyncio.timeout(60):
            assert await self._process.wait() == 0
        await self._reading


async def consume(reader, handled):
    async for event in reader:
        handled.add(reader.name, event.data.decode())


async def until(condition):
    async with asyncio.timeout(60):
        while True:
            if await condition():
                return
            await asyncio.sleep(0.1)


async def test_readers_of_both_kinds_share_a_stream_that_scales(server, scope):
    handled, name = Handled(), f"{scope}/s"
    written = 0

    async def write(count):
        nonlocal written
        numbers = range(written, written + count)
        written += count
        await client.write(name, map(str, numbers), key=[str(number % 23) for number in numbers])

    async with connect(server.uri) as client, connect(server.uri) as doomed:
        await client.create_scope(scope)
        await client.create_stream(name, segments=2)
        await write(200)
        java = await JavaGroup.start(handled, server.uri, scope, "s", "group")
        group = await client.reader_group(group="group", scope=scope)

        async def they_agree():
            cut, unread, shares = await java.ask()
            (ours,), lag = (await group.positions()).values(), await group.lag()
            mine = {each.name: len(each.offsets) for each in await group.readers()}
            return (cut, unread, shares) == (ours, lag.bytes, mine)

        assert (await group.lag()).bytes > 200
        await until(they_agree)
        await java.do("read", "j1")
        await java.do("read", "j2")
        one = await group.reader("p1")
        two = await (await doomed.reader_group(group="group", scope=scope)).reader("p2")
        consuming = [asyncio.create_task(consume(reader, handled)) for reader in (one, two)]
        await client.scale_stream(name, [0, 1], [KeyRange(n / 4, (n + 1) / 4) for n in range(4)])
        await write(400)
        await handled.wait_for(600)
        cuts = await group.checkpoint("before")
        await client.truncate_stream(cuts[name])
        pair = sorted(each.segment_id for each in await client.current_segments(name))[:2]
        await client.scale_stream(name, pair, [KeyRange(0.0, 0.5)])
        await write(200)
        await handled.wait_for(800)
        assert set(handled.counts.values()) == {1}, "nobody has died"
        assert all(len(numbers) > 0 for numbers in handled.by_reader.values())
        for numbers in handled.by_reader.values():
            for key in range(23):
                mine = [number for number in numbers if number % 23 == key]
                assert mine == sorted(mine)
        await group.checkpoint("quiet")
        await until(they_agree)

        await write(200)
        consuming[1].cancel()
        await asyncio.gather(consuming[1], return_exceptions=True)
        await doomed.close()  # without a word to the group
        await java.do("abandon", "j2")
        await write(200)
        assert await group.reader_offline("j2")
        await java.do("offline", two.name)
        await handled.wait_for(1200)
        assert {each.name for each in await group.readers()} == {"j1", one.name}
        await java.do("leave", "j1")
        await one.close()
        await asyncio.gather(*consuming, return_exceptions=True)
        (cut,) = (await group.positions()).values()
        assert (cut, {}) == (await java.ask())[::2]
        assert cut == await client.tail_cut(name), "those who have left have said where they were"
        await java.stop()
        await group.delete()
