"""Controllers that die, stop and lose their sessions at random moments, over a real segment store."""

import asyncio
import contextlib
import random
from dataclasses import replace

import pytest

from headrace.client import (
    RetentionPolicy,
    ScalingPolicy,
    StreamConfiguration,
    StreamCut,
    TransactionStatus,
)
from headrace.errors import HeadraceError
from headrace.model.key_space import FULL_RANGE, split_evenly
from tests.effort import is_long, seeds
from tests.integration.controller.keyed_events import KeyedEvents, read
from tests.integration.controller.sharing_controllers import QUICK, sharing
from tests.unit.controller.calls import eventually

TROUBLES = 6 if is_long() else 4
RETAINED = 2000
PATIENCE_S = 200
"""A busy machine takes half a minute for all of it, where a quiet one takes six seconds."""


class Work:
    """What clients do all the while, and what may be believed about it."""

    def __init__(self, client, chance):
        self._client = client
        self._chance = chance
        self.stopping = False
        self.steps = 0
        self.scales = 0
        self.committed = {}
        self.aborted = set()

    async def scale(self, stream):
        while not self.stopping:
            current = [each.segment_id for each in await self._client.current_segments("s", stream)]
            ranges = split_evenly(FULL_RANGE, self._chance.randint(1, 4))
            with contextlib.suppress(HeadraceError):  # the answer to a repeated scale may be that it happened
                await self._client.scale_stream("s", stream, current, ranges)
                self.scales += 1
            self.steps += 1

    async def transact(self, number):
        async with self._client.txn_writer("s", "transactions") as writer:
            count = 0
            while not self.stopping:
                name = f"{number}-{count}"
                count += 1
                transaction = await writer.begin()
                for event in range(3):
                    transaction.write(f"{name}:{event}".encode(), f"key-{event}")
                await transaction.flush()
                if self._chance.random() < 0.3:
                    await transaction.abort()
                    self.aborted.add(name)
                else:
                    await transaction.commit(wait=self._chance.random() < 0.5)
                    self.committed[name] = transaction
                self.steps += 1

    async def come_and_go(self):
        """Take streams through their lives; each answered call holds at once."""
        client, count = self._client, 0
        while not self.stopping:
            name = f"passing-{count}"
            count += 1
            await client.create_stream("s", name)  # a repeated call may find what the first one made
            async with client.event_writer("s", name) as writer:
                for _ in range(3):
                    await writer.write(b"x", "key")
            await client.truncate_stream(StreamCut.from_offsets("s", name, {0: 18}))
            assert (await client.head_cut("s", name)).offsets == {0: 18}
            await client.update_stream("s", name, StreamConfiguration(tags=frozenset({"tag"})))
            assert (await client.stream_configuration("s", name)).tags == {"tag"}
            await client.seal_stream("s", name)
            assert await client.current_segments("s", name) == []
            await client.delete_stream("s", name)
            assert not await client.stream_exists("s", name)
            self.steps += 1


class Trouble:
    """One of two controllers at a time dies, stops or loses its session; another one takes its port."""

    def __init__(self, cluster, work, chance):
        self._cluster = cluster
        self._work = work
        self._chance = chance
        self.members = list(cluster.members)

    async def strike(self):
        index = self._chance.randrange(2)
        member = self.members[index]
        kind = self._chance.choice(["die", "die", "stop", "expire"])
        await self._let_work()
        if kind == "expire":
            member.expire()
            return
        await getattr(member, kind)()
        await self._let_work()
        self.members[index] = await self._cluster.add(member.endpoint.port)

    async def _let_work(self):
        goal = self._work.steps + self._chance.randint(1, 40)

        async def has_worked():
            return self._work.steps >= goal

        await eventually(has_worked, PATIENCE_S)


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds(1))
async def test_nothing_is_lost_or_doubled_while_controllers_come_and_go(seed):
    chance = random.Random(seed)
    async with sharing(replace(QUICK, buckets=5), session_timeout_s=0.8) as cluster:
        client = await cluster.client(*cluster.members)
        await client.create_scope("s")
        two = StreamConfiguration(scaling=ScalingPolicy.fixed(2))
        for stream in ("events", "transactions"):
            await client.create_stream("s", stream, two)
        retention = StreamConfiguration(retention=RetentionPolicy.by_size(RETAINED))
        await client.create_stream("s", "kept", retention)
        work = Work(client, chance)
        trouble = Trouble(cluster, work, chance)
        events, kept = KeyedEvents(client, "events"), KeyedEvents(client, "kept", keys=1)
        async with asyncio.TaskGroup() as group:
            for each in (events.write(), kept.write(), work.scale("events"), work.scale("transactions")):
                group.create_task(each)
            for each in (work.transact(0), work.transact(1), work.come_and_go()):
                group.create_task(each)
            for _ in range(TROUBLES):
                await trouble.strike()
            work.stopping = True
            events.stop()
            kept.stop()
        await cluster.divided(*trouble.members)
        for transaction in work.committed.values():

            async def is_visible(transaction=transaction):
                return await transaction.status() is TransactionStatus.COMMITTED

            await eventually(is_visible, PATIENCE_S)
        assert work.scales
        await events.check(client)
        found = [event.decode() for event in await read(client, "transactions")]
        assert len(found) == len(set(found))
        assert set(found) == {f"{name}:{event}" for name in work.committed for event in range(3)}
        numbers = [int(event.split()[1]) for event in await read(client, "kept")]
        assert numbers == list(range(numbers[0], kept.written))
        head, tail = (
            next(iter(cut.offsets.values()))
            for cut in (await client.head_cut("s", "kept"), await client.tail_cut("s", "kept"))
        )
        assert tail - head >= RETAINED or head == 0
