"""``kill -9`` at random moments of scales, transactions, truncations, deletions: once or not at all."""

import asyncio
import itertools
import random

import pytest

from headrace.client import (
    ClientConfig,
    ScalingPolicy,
    StreamConfiguration,
    StreamCut,
    TransactionStatus,
    connect,
)
from headrace.errors import HeadraceError
from headrace.model.key_space import FULL_RANGE, split_evenly
from headrace.testing import LocalServer
from tests.effort import examples

pytestmark = pytest.mark.cluster

KILLS = min(6, examples(8))
PATIENT = ClientConfig(control_attempts=100)
"""Kills follow each other so closely that ten attempts may all meet a dead server."""


class Work:
    """What is done to the server, and what may be believed about it."""

    def __init__(self, client, seed):
        self.client = client
        self.chance = random.Random(seed)
        self.stopping = False
        self.steps = 0
        self.stepped = asyncio.Event()
        self.committed = {}
        self.aborted = set()
        self.undecided = set()
        self.written = 0
        self.scales = 0
        self.living = set()
        self.deleted = set()

    def step(self):
        self.steps += 1
        self.stepped.set()

    async def scale(self):
        while not self.stopping:
            current = [each.segment_id for each in await self.client.current_segments("demo", "scaled")]
            try:
                ranges = split_evenly(FULL_RANGE, self.chance.randint(1, 4))
                await self.client.scale_stream("demo", "scaled", current, ranges)
            except HeadraceError:
                continue  # the answer to a repeated scale may be that it has happened
            self.scales += 1
            self.step()

    async def write(self):
        async with self.client.event_writer("demo", "scaled") as writer:
            while not self.stopping:
                await writer.write(b"event:%d" % self.written, "key")
                self.written += 1

    async def transact(self, number):
        async with self.client.txn_writer("demo", "scaled") as writer:
            counter = 0
            while not self.stopping:
                name = f"txn-{number}-{counter}"
                counter += 1
                transaction = await writer.begin()
                for event in range(5):
                    transaction.write(f"{name}:{event}".encode(), f"key-{event}")
                await transaction.flush()
                if self.chance.random() < 0.3:
                    self.undecided.add(name)
                    await transaction.abort()
                    self.undecided.discard(name)
                    self.aborted.add(name)
                else:
                    self.undecided.add(name)
                    await transaction.commit(wait=self.chance.random() < 0.5)
                    self.undecided.discard(name)
                    self.committed[name] = transaction
                self.step()

    async def truncate(self):
        """Write to a stream, and cut it behind what was written, over and over."""
        end = 0
        async with self.client.event_writer("demo", "short") as writer:
            while not self.stopping:
                await writer.write(b"x" * 92, "key")
                end += 100
                await self.client.truncate_stream(StreamCut.from_offsets("demo", "short", {0: end}))
                self.step()
        return end

    async def create_and_delete(self):
        counter = 0
        while not self.stopping:
            name = f"passing-{counter}"
            counter += 1
            await self.client.create_stream("demo", name)
            self.living.add(name)
            if self.chance.random() < 0.5:
                await self.client.seal_stream("demo", name)
                self.living.discard(name)
                await self.client.delete_stream("demo", name)
                self.deleted.add(name)
            self.step()


async def check(client, work):
    """Look at the streams as they are now; some are created and deleted while they are listed."""
    living, deleted = set(work.living), set(work.deleted)
    listed = {name async for name in client.list_streams("demo")}
    assert living & work.living <= listed
    assert not deleted & listed
    cut = await client.tail_cut("demo", "scaled")
    ranges = sorted(
        (await client.key_ranges("demo", "scaled", cut.offsets)).values(), key=lambda each: each.low
    )
    assert ranges[0].low == 0.0
    assert ranges[-1].high == 1.0
    assert all(left.high == right.low for left, right in itertools.pairwise(ranges))


@pytest.mark.slow
@pytest.mark.timeout(240)
@pytest.mark.parametrize("seed", [20130101])
@pytest.mark.usefixtures("clean_end")
async def test_kills_leave_every_change_done_once_or_not_at_all(tmp_path, seed):
    chance = random.Random(seed)
    server = LocalServer(tmp_path)
    server.start()
    try:
        async with connect(server.uri, PATIENT) as client:
            await client.create_scope("demo")
            fixed = StreamConfiguration(scaling=ScalingPolicy.fixed(1))
            await client.create_stream("demo", "scaled", fixed)
            await client.create_stream("demo", "short", fixed)
            work = Work(client, seed)
            async with asyncio.timeout(200), asyncio.TaskGroup() as group:
                group.create_task(work.scale())
                group.create_task(work.write())
                for number in range(3):
                    group.create_task(work.transact(number))
                truncating = group.create_task(work.truncate())
                group.create_task(work.create_and_delete())
                for _ in range(KILLS):
                    goal = work.steps + chance.randint(5, 40)
                    while work.steps < goal:
                        work.stepped.clear()
                        await work.stepped.wait()
                    await asyncio.to_thread(server.restart)
                    await check(client, work)
                goal = work.steps + 20
                while work.steps < goal or not (work.scales and work.aborted and work.committed):
                    work.stepped.clear()
                    await work.stepped.wait()
                work.stopping = True
            for transaction in work.committed.values():
                async with asyncio.timeout(60):
                    while await transaction.status() is not TransactionStatus.COMMITTED:  # noqa: ASYNC110
                        await asyncio.sleep(0.02)  # the protocol has no other way
            await check(client, work)
            async with client.event_reader("demo", "scaled", end="tail") as reader:
                found = [payload.decode() async for batch in reader.batches() for payload in batch.payloads()]
            assert (await client.head_cut("demo", "short")).offsets == {0: truncating.result()}
        assert len(set(found)) == len(found)
        assert [each for each in found if each.startswith("event")] == [
            f"event:{n}" for n in range(work.written)
        ]
        events = {each for each in found if each.startswith("txn")}
        assert events == {f"{name}:{event}" for name in work.committed for event in range(5)}
        assert not work.undecided
        assert server.stop() == 0
        assert "Traceback" not in server.log()
    finally:
        server.close()
