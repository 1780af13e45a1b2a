"""What clients do all the while that a cluster is in trouble, and what has to be true of it in the end."""

import asyncio
import time
from collections import defaultdict

from headrace.client import RetentionPolicy, ScalingPolicy, StreamConfiguration, TransactionStatus
from headrace.errors import RequestError, TableKeyVersionError, UnknownOutcomeError
from headrace.model.key_space import FULL_RANGE, split_evenly
from tests.integration.cluster_storm import foreign

SCOPE = "storm"
RETAINED = 20_000
EVENT_BYTES = 100
OUTSTANDING_MAX = 500
WRITERS = (("events", 0, 6), ("events", 1, 6), ("moving", 0, 4), ("retained", 0, 1))
"""Stream, number of the writer, and how many keys it has."""
LONG_S = 300
"""Ends what is stalled."""


class Ledger:
    """Streams, what was written to them, and how often what has happened.

    ``round_s`` is between two rounds of each client: the load is steady, and leaves the machine to others.
    """

    def __init__(self, client, chance, stalls, round_s, others=()):
        """``others`` are kinds of clients that are not ours, and write as well."""
        self.client = client
        self.others = others
        self.foreign = {}
        self.chance = chance
        self.stalls = stalls
        self.round_s = round_s
        self.stopping = False
        self.done = defaultdict(int)
        self.written = defaultdict(dict)
        """Of each stream, how many events each key has: all of them acknowledged in the end."""
        self.committed, self.aborted = {}, set()
        self.added, self.unsure = [], []

    async def prepare(self):
        await self.client.create_scope(SCOPE)
        for stream, segments in (("events", 4), ("moving", 2), ("transactions", 2)):
            await self.client.create_stream(SCOPE, stream, _fixed(segments))
        for stream in self.others:
            await self.client.create_stream(SCOPE, stream, _fixed(3))
        retention = RetentionPolicy.by_size(RETAINED)
        await self.client.create_stream(SCOPE, "retained", StreamConfiguration(retention=retention))
        await self.client.create_key_value_table(SCOPE, "table", primary_key_bytes=5, partitions=2)

    def flows(self):
        """Return the names under which waits for answers are noted."""
        return [
            *(f"{stream} w{writer}k{key}" for stream, writer, keys in WRITERS for key in range(keys)),
            *("scale of moving", "scale of transactions", "transactions 0", "transactions 1"),
            *("table 0", "table 1", "streams that come and go"),
        ]

    def jobs(self):
        """Return what is done beside each other, by name."""
        writers = {f"writer {each}": self.write(*each) for each in WRITERS}
        others = {f"writer of {each}": self.write_as(each) for each in self.others}
        return (
            writers
            | others
            | {
                "reader of events": self.follow("events"),
                "reader of moving": self.follow("moving"),
                "scales of moving": self.scale("moving"),
                "scales of transactions": self.scale("transactions"),
                "transactions-0": self.transact(0),
                "transactions-1": self.transact(1),
                "table-0": self.count(0),
                "table-1": self.count(1),
                "streams that come and go": self.come_and_go(),
            }
        )

    # ------------------------------------------------------------------------------------ events

    async def write(self, stream, number, keys):
        """Write numbered events per key, many of them in flight."""
        names = [f"w{number}k{key}" for key in range(keys)]
        outstanding, count = 0, 0

        def acknowledged(began, key):
            def note(ack):
                nonlocal outstanding
                outstanding -= 1
                assert ack.error() is None, ack.error()
                self.stalls.on_answer(f"{stream} {key}", began)
                self.done["events acknowledged"] += 1

            return note

        async with self.client.event_writer(SCOPE, stream) as writer:
            while not self.stopping:
                if outstanding < OUTSTANDING_MAX:
                    for key in names:
                        outstanding += 1
                        event = f"{key} {count} ".encode().ljust(EVENT_BYTES, b".")
                        writer.write(event, key).add_done_callback(acknowledged(time.monotonic(), key))
                    count += 1
                await asyncio.sleep(self.round_s)  # the load of a program with its own pace
        self.written[stream].update(dict.fromkeys(names, count))

    async def write_as(self, kind):
        """Let a client of that kind write to the stream of that name."""
        written = await foreign.write(kind, self.client.uri, SCOPE, lambda: self.stopping)
        self.done[f"lives of {kind}"] = written.lives
        self.foreign[kind] = written

    async def follow(self, stream):
        """Read from the head while it is written: each key's events come once and in order."""
        following = Following(stream)
        async with self.client.event_reader(SCOPE, stream) as reader:
            while not self.stopping:
                try:
                    batch = await reader.next_batch_within(0.5)
                except TimeoutError:
                    continue
                self.done["events read on the fly"] += following.take(batch)

    async def scale(self, stream):
        while not self.stopping:
            current = await self.client.current_segments(SCOPE, stream)
            ranges = split_evenly(FULL_RANGE, self.chance.randint(1, 4))
            began = time.monotonic()
            try:
                await self.client.scale_stream(SCOPE, stream, [each.segment_id for each in current], ranges)
                self.done["scales"] += 1
            except RequestError:
                self.done["scales refused"] += 1  # a repeated call may find what the first one did
            self.stalls.on_answer(f"scale of {stream}", began)
            await asyncio.sleep(20 * self.round_s)  # as above

    # ------------------------------------------------------------------------------------ transactions

    async def transact(self, number):
        async with self.client.txn_writer(SCOPE, "transactions") as writer:
            count = 0
            while not self.stopping:
                name, began = f"{number}-{count}", time.monotonic()
                count += 1
                transaction = await writer.begin()
                for event in range(3):
                    transaction.write(f"{name}:{event}".encode(), f"key-{event}")
                await transaction.flush()
                if self.chance.random() < 0.3:
                    await transaction.abort()
                    self.aborted.add(name)
                else:
                    await transaction.commit(wait=self.chance.random() < 0.5)
                    self.committed[name] = transaction
                    self.done["transactions committed"] += 1
                self.stalls.on_answer(f"transactions {number}", began)
                await asyncio.sleep(2 * self.round_s)  # as above

    # ------------------------------------------------------------------------------------ tables

    async def count(self, number):
        """Add marks to values, under their versions."""
        async with self.client.key_value_table(SCOPE, "table") as table:
            count = 0
            while not self.stopping:
                key, mark = f"key-{self.chance.randrange(3)}".encode(), f"{number}-{count}"
                count += 1
                began = time.monotonic()
                try:
                    await self._add(table, key, mark)
                except TableKeyVersionError:
                    self.done["marks refused"] += 1
                except UnknownOutcomeError:
                    self.unsure.append((key, mark))
                else:
                    self.added.append((key, mark))
                    self.done["marks"] += 1
                self.stalls.on_answer(f"table {number}", began)
                await asyncio.sleep(self.round_s)  # as above

    async def _add(self, table, key, mark):
        found = await table.get_entry(key)
        if found is None:
            await table.insert(key, f"{mark},".encode())
        else:
            await table.put(key, found.value + f"{mark},".encode(), found.version)

    # ------------------------------------------------------------------------------------ lives of streams

    async def come_and_go(self):
        """Take streams through their lives."""
        count = 0
        while not self.stopping:
            name, began = f"passing-{count}", time.monotonic()
            count += 1
            await self.client.create_stream(SCOPE, name)
            async with self.client.event_writer(SCOPE, name) as writer:
                await writer.write(b"x", "key")
            await self.client.seal_stream(SCOPE, name)
            await self.client.delete_stream(SCOPE, name)
            assert not await self.client.stream_exists(SCOPE, name)
            self.done["streams that came and went"] += 1
            self.stalls.on_answer("streams that come and go", began)
            await asyncio.sleep(2 * self.round_s)  # as above

    # ------------------------------------------------------------------------------------ judgement

    async def check(self):
        """Raise AssertionError unless everything is as clients were told, and every workflow has ended."""
        async with asyncio.timeout(LONG_S):
            for stream in ("events", "moving"):
                assert await self._read(stream) == self.written[stream], stream
            for kind, written in self.foreign.items():
                written.check(await self._read(kind))
            await self._check_transactions()
            await self._check_retained()
            await self._check_table()
            await self._check_ends()

    async def _read(self, stream):
        """Return how many events there are of each key, none doubled, missing or out of order."""
        following = Following(stream)
        async with self.client.event_reader(SCOPE, stream, end="tail") as reader:
            async for batch in reader.batches():
                self.done["events read in the end"] += following.take(batch)
        return following.next

    async def _check_transactions(self):
        for name, transaction in self.committed.items():
            while (status := await transaction.status()) is TransactionStatus.COMMITTING:  # noqa: ASYNC110
                await asyncio.sleep(self.round_s)
            assert status is TransactionStatus.COMMITTED, (name, status)
        async with self.client.event_reader(SCOPE, "transactions", end="tail") as reader:
            found = [bytes(event).decode() async for batch in reader.batches() for event in batch]
        assert len(found) == len(set(found)), "an event of a transaction is there twice"
        wanted = {f"{name}:{event}" for name in self.committed for event in range(3)}
        assert set(found) == wanted, sorted(set(found) ^ wanted)

    async def _check_retained(self):
        following = Following("retained")
        head, tail = [
            next(iter(cut.offsets.values()))
            for cut in (
                await self.client.head_cut(SCOPE, "retained"),
                await self.client.tail_cut(SCOPE, "retained"),
            )
        ]
        following.next = defaultdict(lambda: head // (EVENT_BYTES + 8))
        async with self.client.event_reader(SCOPE, "retained", end="tail") as reader:
            async for batch in reader.batches():
                following.take(batch)
        assert following.next == self.written["retained"]
        assert tail - head >= min(RETAINED, tail)

    async def _check_table(self):
        found = []
        async with self.client.key_value_table(SCOPE, "table") as table:
            async for key, value, _ in table.scan():
                found += [(bytes(key), mark) for mark in value.decode().split(",")[:-1]]
        assert len(found) == len(set(found)), "a mark is there twice"
        assert set(self.added) <= set(found) <= {*self.added, *self.unsure}
        for key in {key for key, _ in found}:
            for number in range(2):
                own = [int(m.split("-")[1]) for k, m in found if k == key and m.startswith(f"{number}-")]
                assert own == sorted(own), (key, own)

    async def _check_ends(self):
        """A stream is sealed and deleted only once nothing of it is under way."""
        async for each in self.client.list_streams(SCOPE):
            await self.client.seal_stream(SCOPE, each)
        await self.client.delete_scope(SCOPE, recursive=True)
        assert not await self.client.scope_exists(SCOPE)


class Following:
    """What comes next of each key of a stream that is read."""

    def __init__(self, stream):
        self.stream = stream
        self.next = defaultdict(int)

    def take(self, batch):
        """Return how many events there were."""
        count = 0
        for event in batch:
            key, number, _ = bytes(event).decode().split(" ")
            assert int(number) == self.next[key], f"{self.stream}: {key} {number}, not {self.next[key]}"
            self.next[key] += 1
            count += 1
        return count


def _fixed(segments):
    return StreamConfiguration(scaling=ScalingPolicy.fixed(segments))
