"""Events above 8 MiB on a real server, by both faces, and by a client that is killed within one."""

import hashlib
import io
import subprocess
import sys

import pytest

import headrace
from headrace.errors import EventTooLargeError, LargeEventError
from headrace.limits import MIB
from headrace.testing import LocalServer
from tests import programs
from tests.effort import soak

pytestmark = [pytest.mark.cluster, pytest.mark.slow]


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with LocalServer(tmp_path_factory.mktemp("large"), "--in-memory") as running:
        yield running


@pytest.fixture(scope="module")
def client(server):
    with headrace.connect(server.uri) as connected:
        connected.create_scope("large")
        yield connected


def large(size):
    return hashlib.shake_128(b"large").digest(MIB) * (size // MIB) + b"." * (size % MIB)


def test_large_events_of_threads_are_read_by_both_faces(server, client, tmp_path):
    client.create_stream("large/threads", segments=2)
    event = large(20 * MIB + 7)
    (tmp_path / "file").write_bytes(event)
    with client.event_writer("large/threads") as writer:
        writer.write(b"1", "key")
        writer.write(event, "key")
        writer.write(b"3", "key").wait()
        done = []
        writer.write_large(tmp_path / "file", "key", progress=lambda *of: done.append(of))
        writer.write_large(iter([event[:MIB], event[MIB:]]), "key")
        writer.write_many([b"6", event, b"8"], "key")
        with pytest.raises(EventTooLargeError):
            writer.write_atomic([event], "key")
    assert done[-1] == (len(event), len(event))
    assert client.write("large/threads", event, key="key") == 1
    read = [each.data for each in client.read("large/threads")]
    assert read == [b"1", event, b"3", event, event, b"6", event, b"8", event]
    transaction = client.txn_writer("large/threads").begin()
    with pytest.raises(EventTooLargeError):
        transaction.write(event, "key")
    transaction.abort()


def test_large_events_of_a_named_writer_are_stored_once_over_a_scale(client):
    client.create_stream("large/named", segments=1)
    event = large(9 * MIB)
    for _ in range(2):
        with client.event_writer("large/named", name="etl") as writer:
            for number in range(6):
                writer.write(event if number % 2 else b"%d" % number, "key", number=number)
            writer.write_large(io.BytesIO(event), "key", number=6)
            writer.write_many([b"7", event], "key", numbers=7)
        ids = [each.segment_id for each in client.current_segments("large/named")]
        halves = [headrace.KeyRange(0.0, 0.5), headrace.KeyRange(0.5, 1.0)]
        client.scale_stream("large/named", ids, halves)
    read = [each.data for each in client.read("large/named")]
    assert read == [b"0", event, b"2", event, b"4", event, event, b"7", event]


def test_a_reader_is_told_where_an_event_is_that_it_may_not_hold(client):
    client.create_stream("large/refused")
    event = large(12 * MIB)
    client.write("large/refused", [b"1", event, b"3"], key="key")
    seen = []
    with client.event_reader(
        "large/refused", end="tail", config=headrace.ReaderConfig(event_bytes_max=10 * MIB)
    ) as reader:
        while True:
            try:
                seen += [each.data for each in reader]
                break
            except LargeEventError as error:
                place = error
    assert seen[-1] == b"3"
    digest = hashlib.sha256()
    with client.read_segment_range("large/refused", place.segment_id, place.start, place.end) as source:
        for piece in source.blocks():
            digest.update(piece)
    assert digest.digest() == hashlib.sha256(event).digest()


def test_large_events_of_a_stream_with_records_have_key_and_headers(client):
    client.create_stream("large/records", records=True)
    event = large(9 * MIB)
    with client.event_writer("large/records", name="etl") as writer:
        writer.write(event, "key", headers={"by": "write"}, number=1)
        writer.write_large(iter([event]), "key", headers={"by": "write_large"}, number=2)
    found = list(client.read("large/records"))
    assert [each.data == event for each in found] == [True, True]
    assert [each.key for each in found] == [b"key"] * 2
    assert [each.headers["by"] for each in found] == [b"write", b"write_large"]


PROGRAM = """
import sys
import headrace

with headrace.connect(sys.argv[1]) as client, client.event_writer("large/killed") as writer:
    writer.write(b"before", "key").wait()
    writer.write_large(iter([bytes(1 << 20)] * 40), "key", progress=lambda *of: print(*of, flush=True))
"""


def test_a_program_that_is_killed_between_two_pieces_leaves_nothing_that_can_be_read(server, client):
    client.create_stream("large/killed")
    with programs.Popen([sys.executable, "-c", PROGRAM, server.uri], stdout=subprocess.PIPE) as program:
        stored, total = map(int, program.stdout.readline().split())
        program.kill()
    assert 0 < stored < total
    client.write("large/killed", "after", key="key")
    assert [each.data for each in client.read("large/killed")] == [b"before", b"after"]


@soak
def test_an_event_of_a_gibibyte_is_written_from_a_file_and_read(client, tmp_path):
    client.create_stream("large/gibibyte")
    with (tmp_path / "file").open("wb") as file:
        for _ in range(1024):
            file.write(large(MIB))
    with client.event_writer("large/gibibyte") as writer:
        writer.write_large(tmp_path / "file", "key")
    config = headrace.ReaderConfig(event_bytes_max=1 << 30)
    [event] = client.read("large/gibibyte", config=config)
    assert event.data == large(MIB) * 1024
