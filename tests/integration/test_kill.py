"""``kill -9`` in the middle of ingestion by eight writers and under four readers, six times.

Every acknowledged event is there once, and no reader ever sees an event twice, skips one, or sees one that
is not there in the end.
"""

import asyncio
import collections
import random

import pytest

from headrace.client import connect
from headrace.model.policies import ScalingPolicy, StreamConfiguration
from headrace.testing import LocalServer
from tests.effort import examples

WRITERS = 8
READERS = 4
KILLS = examples(6)


async def write_until(client, number, acked, stopping, on_ack):
    """One writer: batches of small events under its own key, remembering what was acknowledged."""
    async with client.event_writer("kill", "stream") as writer:
        sequence = 0
        pending = set()
        while not stopping.is_set():
            batch = [f"{number}:{sequence + i}".encode().ljust(60, b".") for i in range(20)]
            last = sequence + 19
            future = asyncio.ensure_future(_flush(writer, batch, f"key-{number}"))
            sequence += 20

            def done(task, last=last):
                pending.discard(task)
                if not task.cancelled() and task.exception() is None:
                    acked[number] = max(acked[number], last)
                    on_ack(20)

            pending.add(future)
            future.add_done_callback(done)
            if len(pending) > 10:
                await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
        if pending:
            await asyncio.wait(pending)
        for task in pending:
            task.result()
        return sequence


async def _flush(writer, batch, key):
    await writer.write_many(batch, [key] * len(batch))


def note(payload, seen):
    """Take down one event and hold it against what the same reader saw of its writer before.

    Every byte is known: number and sequence, padded. The next sequence is the only one that may follow.
    """
    number, _, sequence = payload.rstrip(b".").partition(b":")
    assert payload == b"%d:%d" % (int(number), int(sequence)) + b"." * (60 - len(number) - 1 - len(sequence))
    assert int(sequence) == seen[int(number)] + 1, f"writer {int(number)}: after {seen[int(number)]}"
    seen[int(number)] = int(sequence)


async def read_until_sealed(client, seen):
    """One reader from the head on, over every kill, until the stream is sealed; remembers the last events."""
    async with client.event_reader("kill", "stream") as reader:
        async for batch in reader.batches():
            for payload in batch.payloads():
                note(payload, seen)


async def check_kills(server, kills):
    """Kill a server that runs, and start it again, as often as said, under load; then compare everything."""
    rng = random.Random(20130101)
    acked = collections.defaultdict(lambda: -1)
    counted = 0
    wanted = asyncio.Event()
    goal = 0

    def on_ack(events):
        nonlocal counted
        counted += events
        if counted >= goal:
            wanted.set()

    async with connect(server.uri) as client:
        await client.create_scope("kill")
        await client.create_stream("kill", "stream", StreamConfiguration(scaling=ScalingPolicy.fixed(4)))
        stopping = asyncio.Event()
        async with asyncio.TaskGroup() as group:
            observed = [collections.defaultdict(lambda: -1) for _ in range(READERS)]
            readers = [group.create_task(read_until_sealed(client, seen)) for seen in observed]
            writers = [
                group.create_task(write_until(client, number, acked, stopping, on_ack))
                for number in range(WRITERS)
            ]
            for _ in range(kills):
                wanted.clear()
                goal = counted + rng.randint(500, 6000)
                await asyncio.wait_for(wanted.wait(), 60)
                await asyncio.to_thread(server.restart)
            wanted.clear()
            goal = counted + 2000
            await asyncio.wait_for(wanted.wait(), 60)
            stopping.set()
            await asyncio.wait(writers)
            await client.seal_stream("kill", "stream")
            await asyncio.wait(readers, timeout=120)
            assert all(task.done() for task in readers)
        written = [task.result() for task in writers]
        seen = collections.defaultdict(list)
        async with client.event_reader("kill", "stream", end="tail") as reader:
            async for batch in reader.batches():
                for payload in batch.payloads():
                    number, _, sequence = payload.rstrip(b".").partition(b":")
                    seen[int(number)].append(int(sequence))
    for number in range(WRITERS):
        assert acked[number] == written[number] - 1
        assert seen[number] == list(range(written[number])), f"writer {number}"
        assert [last[number] for last in observed] == [written[number] - 1] * READERS
    assert server.starts == kills + 1


@pytest.mark.cluster
@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.usefixtures("clean_end")
async def test_kills_lose_double_and_reorder_nothing(tmp_path):
    server = LocalServer(tmp_path)
    server.start()
    try:
        await check_kills(server, KILLS)
        assert server.stop() == 0
    finally:
        server.close()
