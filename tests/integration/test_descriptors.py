"""A system that grants few descriptors: clients come in any number, and the containers go on."""

import asyncio
import socket

import pytest

from headrace.client import connect
from headrace.testing import LocalServer, ServerDiedError
from headrace.testing.local_server import HEADRACE

pytestmark = pytest.mark.cluster

LIMIT = 300
ROUNDS = 80
EVENTS = [b"%06d" % number + bytes(10_000) for number in range(100)]


def open_sockets(address, count):
    host, port = address.split(":")
    return [socket.create_connection((host, int(port)), timeout=120) for _ in range(count)]


def closed(sockets):
    """Count those that the server has closed; what it sends at once is nothing else."""
    count = 0
    for sock in sockets:
        sock.settimeout(0.2 if count == 0 else 0.01)
        try:
            count += sock.recv(1) == b""
        except TimeoutError:
            pass
        except OSError:
            count += 1
    return count


def with_files(soft, hard):
    """Return a command whose process the system lets open so many files."""
    return ("sh", "-c", f'ulimit -Sn {soft} && ulimit -Hn {hard} && exec "$@"', "sh", *HEADRACE)


@pytest.mark.slow
async def test_a_storm_of_connections_takes_no_descriptor_that_a_log_needs(tmp_path):
    """It used to take all of them: the log found none for its next file, and its container ended."""
    with LocalServer(tmp_path, "--containers", "2", command=with_files(LIMIT // 2, LIMIT)) as server:
        assert f"lets this process open {LIMIT} files" in server.log()
        async with connect(server.uri) as client:
            await client.create_scope("demo")
            await client.create_stream("demo", "s")
            async with client.event_writer("demo", "s") as writer:
                await writer.write(b"first")
                sockets = open_sockets(server.addresses["segmentstore"], 2 * LIMIT)
                assert closed(sockets) > LIMIT
                for _ in range(ROUNDS):  # more than a file of the log, and chunks
                    writer.write_many(EVENTS)
                    await asyncio.wait_for(writer.drain(), 60)
                await asyncio.wait_for(writer.flush(), 60)
                for sock in sockets:
                    sock.close()
            count = 0
            async with client.event_reader("demo", "s", end="tail") as reader:
                async for batch in reader.batches():
                    count += len(batch)
            assert count == 1 + ROUNDS * len(EVENTS)
        log = server.log()
        assert "Too many open files" not in log
        assert "ended" not in log
        assert server.stop() == 0


def test_a_server_with_too_few_descriptors_says_so_and_does_not_start(tmp_path):
    server = LocalServer(tmp_path, "--containers", "4", command=with_files(128, 128))
    with pytest.raises(ServerDiedError, match="lets this process open 128 files; 4 containers need"):
        server.start()
    assert not (tmp_path / "data" / "wal").exists()
