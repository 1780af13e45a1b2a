"""Batches with numbers on a real server: each is in once, whole, however often it is given and by whom."""

import itertools
import random
import subprocess
import sys

import pytest

import headrace
from headrace.errors import InvalidArgumentError, TransactionStateError
from headrace.testing import LocalServer
from tests import programs
from tests.effort import examples

pytestmark = [pytest.mark.cluster, pytest.mark.slow]


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with LocalServer(tmp_path_factory.mktemp("batches"), "--in-memory") as running:
        yield running


@pytest.fixture(scope="module")
def client(server):
    with headrace.connect(server.uri) as connected:
        connected.create_scope("batch")
        yield connected


def events_of(client, stream):
    return sorted(event.data.decode() for event in client.read(stream))


def give(client, stream, number, count=10):
    with client.batch(stream, app="etl", number=number, wait=True) as batch:
        for n in range(count):
            batch.write(f"{number}:{n}", f"key{n}")
    return batch.is_new


def scale(client, stream, count):
    ids = [each.segment_id for each in client.current_segments(stream)]
    bounds = [n / count for n in range(count + 1)]
    client.scale_stream(stream, ids, [headrace.KeyRange(*each) for each in itertools.pairwise(bounds)])


def test_a_batch_that_is_given_again_is_not_written_again_over_scales_and_truncation(client):
    client.create_stream("batch/out", segments=1)
    assert client.last_batch("batch/out", app="etl") is None
    assert give(client, "batch/out", 1)
    assert not give(client, "batch/out", 1)
    scale(client, "batch/out", 3)
    assert not give(client, "batch/out", 1)
    assert give(client, "batch/out", 7)
    client.truncate_stream(client.tail_cut("batch/out"))
    scale(client, "batch/out", 2)
    assert not give(client, "batch/out", 7)
    assert not give(client, "batch/out", 5)
    assert client.last_batch("batch/out", app="etl") == 7
    assert give(client, "batch/out", 8)
    assert events_of(client, "batch/out") == sorted(f"8:{n}" for n in range(10))


def test_an_exception_drops_a_batch_and_its_number_may_be_given_again(client):
    client.create_stream("batch/dropped", segments=2)
    with pytest.raises(ZeroDivisionError), client.batch("batch/dropped", app="etl", number=1) as batch:
        batch.write(f"{1 / (batch.number - 1)}", "key")
    with pytest.raises(TransactionStateError):
        batch.write("never", "key")
    assert events_of(client, "batch/dropped") == []
    assert give(client, "batch/dropped", 1)
    assert len(events_of(client, "batch/dropped")) == 10


def test_of_two_that_give_a_batch_at_once_one_writes_it(client):
    client.create_stream("batch/twice", segments=2)
    with client.batch("batch/twice", app="etl", number=1, wait=True) as first:
        first.write_many(["1:0", "1:1"], ["a", "b"])
        assert give(client, "batch/twice", 1, 2)
    assert events_of(client, "batch/twice") == ["1:0", "1:1"]


def test_a_name_and_a_number_are_asked_for(client):
    client.create_stream("batch/refused")
    for app, number in (("", 1), ("x" * 256, 1), (None, 1), ("etl", -1), ("etl", "1"), ("etl", True)):
        with pytest.raises(InvalidArgumentError):
            client.batch("batch/refused", app=app, number=number)


async def test_the_client_of_asyncio_has_batches(server, client):
    client.create_stream("batch/aio", segments=2)
    async with headrace.aio.connect(server.uri) as other:
        for is_new in (True, False):
            async with other.batch("batch/aio", app="etl", number=3, serializer="json", wait=True) as batch:
                assert batch.is_new is is_new
                batch.write({"order": 1}, "key")
                batch.write_many([{"order": 2}], "key")
                await batch.drain()
        assert await other.last_batch("batch/aio", app="etl") == 3
        assert [each.value async for each in other.read("batch/aio", serializer="json")] == [
            {"order": 1},
            {"order": 2},
        ]


PROGRAM = """
import sys
import headrace

with headrace.connect(sys.argv[1]) as client:
    for number in range(40):
        with client.batch("batch/killed", app="etl", number=number) as batch:
            print(number, flush=True)
            for n in range(5):
                batch.write(f"{number}:{n}", f"key{n}")
"""


def test_a_program_that_is_killed_gives_its_batches_again_and_each_is_in_once(server, client):
    rng = random.Random(7)
    client.create_stream("batch/killed", segments=3)
    command = [sys.executable, "-c", PROGRAM, server.uri]
    for _ in range(max(2, examples(8))):
        with programs.Popen(command, stdout=subprocess.PIPE) as program:
            for _ in range(rng.randrange(1, 40)):
                program.stdout.readline()
            program.kill()
    assert programs.run(command, capture_output=True, timeout=120).returncode == 0
    while len(found := events_of(client, "batch/killed")) < 200:
        pass  # it was decided, and is seen soon
    assert found == sorted(f"{number}:{n}" for number in range(40) for n in range(5))
