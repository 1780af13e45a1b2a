"""A program that writes numbered events is killed with ``kill -9`` again and again, while its stream scales.

It goes on at a position that it wrote down itself, which is older than what it has written.
"""

import itertools
import random
import subprocess
import sys

import pytest

import headrace
from headrace.errors import InvalidArgumentError
from headrace.testing import LocalServer
from tests import programs
from tests.effort import examples

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

COUNT = 3000
KEYS = 5

PROGRAM = """
import pathlib, sys
import headrace

uri, position = sys.argv[1], pathlib.Path(sys.argv[2])
with headrace.connect(uri) as client, client.event_writer("kill/numbered", name="etl-7") as writer:
    begin = int(position.read_text() or 0) if position.exists() else 0
    for number in range(begin, 3000):
        writer.write(f"{number}", f"key{number % 5}", number=number)
        if number % 100 == 99:
            writer.flush()
            print(number, flush=True)
        if number % 500 == 499:
            new = position.with_suffix(".new")
            new.write_text(f"{number + 1}")
            new.replace(position)
print("done", flush=True)
"""


def present_segments(client):
    return {each.segment_id: each.key_range for each in client.current_segments("kill/numbered")}


def scale(client, rng):
    """Replace all segments by another number of them."""
    bounds = [n / 60 for n in sorted({0, 60, *rng.sample(range(1, 60), rng.randrange(0, 4))})]
    ranges = [headrace.KeyRange(*each) for each in itertools.pairwise(bounds)]
    client.scale_stream("kill/numbered", list(present_segments(client)), ranges)


def events_of(client):
    return [int(event.data) for event in client.read("kill/numbered")]


def test_a_program_that_is_killed_writes_each_of_its_events_once(tmp_path):
    rng = random.Random(4)
    with LocalServer(tmp_path / "server", "--in-memory") as server, headrace.connect(server.uri) as client:
        client.create_scope("kill")
        client.create_stream("kill/numbered")
        command = [sys.executable, "-c", PROGRAM, server.uri, str(tmp_path / "position")]
        for _ in range(max(3, examples(8))):
            with programs.Popen(command, stdout=subprocess.PIPE) as program:
                for _ in range(rng.randrange(1, 9)):
                    program.stdout.readline()
                if rng.random() < 0.5:
                    scale(client, rng)
                program.kill()
            scale(client, rng)
        ended = programs.run(command, capture_output=True, timeout=120)
        assert ended.stdout.endswith(b"done\n"), ended.stderr
        found = events_of(client)
        per_key = {key: [number for number in found if number % KEYS == key] for key in range(KEYS)}
        assert per_key == {key: list(range(key, COUNT, KEYS)) for key in range(KEYS)}


def test_threads_give_single_events_batches_and_large_ones_in_the_order_of_their_numbers(tmp_path):
    with LocalServer(tmp_path / "server", "--in-memory") as server, headrace.connect(server.uri) as client:
        client.create_scope("kill")
        client.create_stream("kill/forms", segments=1)
        large = bytes(9 << 20)
        for _ in range(2):
            with client.event_writer("kill/forms", name="etl") as writer:
                for number in range(0, 60, 6):
                    writer.write(f"{number}", "key", number=number)
                    writer.write(f"{number + 1}", "key", number=number + 1)
                    writer.write_many([f"{number + 2}", f"{number + 3}"], "key", numbers=number + 2)
                    writer.write(f"{number + 4}", "key", number=number + 4)
                    writer.write_atomic([f"{number + 5}"], "key", number=number + 5)
                writer.write(large, "key", number=60)
                writer.write("61", None, number=61)
                ack = writer.write("62", "key", number=62)
                with pytest.raises(InvalidArgumentError, match="numbers rise"):
                    writer.write("62", "key", number=62)
                ack.wait()
                assert writer.durable_number == 62
        read = [event.data for event in client.read("kill/forms")]
        assert read == [b"%d" % n for n in range(60)] + [large, b"61", b"62"]
