"""What an operator does to a server: two of them, wrong settings, taken ports, signals, stale files."""

import asyncio
import fcntl
import json
import os
import select
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.client import ScalingPolicy, StreamConfiguration, WriterConfig, connect
from headrace.client.reconnect_policy import ReconnectPolicy
from headrace.testing import LocalServer
from tests import programs

pytestmark = pytest.mark.cluster

GIVE_UP = WriterConfig(reconnect=ReconnectPolicy(give_up_s=0.5))
ANY_PORTS = ["--controller-port", "0", "--segmentstore-port", "0", "--rest-port", "0"]


@pytest.fixture
def server(tmp_path):
    server = LocalServer(tmp_path, "--containers", "2")
    yield server
    server.close()


def refused(*arguments, timeout_s=30):
    """Run a server that must not start; return its exit code and what it said, which is one line."""
    ended = programs.run(
        [sys.executable, "-m", "headrace.cli.main", "standalone", *arguments],
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )
    lines = [line for line in ended.stderr.splitlines() if " INFO " not in line]
    assert len(lines) == 1, ended.stderr
    assert lines[0].startswith("headrace: ")
    assert ended.stdout == ""
    return ended.returncode, lines[0]


def read_all(client, stream="stream"):
    async def read():
        async with client.event_reader("demo", stream, end="tail") as reader:
            return [payload async for batch in reader.batches() for payload in batch.payloads()]

    return read()


async def create(client, segments=2):
    await client.create_scope("demo")
    await client.create_stream("demo", "stream", StreamConfiguration(scaling=ScalingPolicy.fixed(segments)))


@pytest.mark.slow
def test_a_second_server_on_the_directory_is_refused_and_told_who_holds_it(server):
    addresses = server.start()
    code, line = refused(*ANY_PORTS, "--data-dir", str(server.directory / "data"))
    assert code == 3
    assert f"in use by pid {addresses['pid']} " in line
    assert server.process.poll() is None


@pytest.mark.slow
def test_a_refused_server_leaves_the_ready_file_of_the_holder_alone(server):
    server.start()
    ready = server.directory / "ready-1.json"
    before = ready.read_text()
    refused(*ANY_PORTS, "--data-dir", str(server.directory / "data"), "--ready-file", str(ready))
    assert ready.read_text() == before


@pytest.mark.slow
def test_another_number_of_containers_is_refused_and_the_right_one_named(server):
    server.start()
    assert server.stop() == 0
    code, line = refused(*ANY_PORTS, "--data-dir", str(server.directory / "data"), "--containers", "7")
    assert code == 2
    assert "made with 2 containers, 7 were requested" in line
    server.arguments = ()
    server.start()  # without the option it is as the directory was made


@pytest.mark.parametrize("part", ["controller", "segmentstore", "rest"])
def test_a_taken_port_is_named_in_one_line(part):
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        port = holder.getsockname()[1]
        code, line = refused("--in-memory", *ANY_PORTS, f"--{part}-port", str(port))
    assert code == 1
    assert f"127.0.0.1:{port}: address already in use" in line
    assert f"--{part}-port" in line


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["--controller-port", "99999"], 2, "controller_port = 99999 is outside [0, 65535]"),
        (["--segmentstore-port", "-1"], 2, "segmentstore_port = -1 is outside"),
        (["--containers", "0"], 2, "containers = 0 is outside [1, 1024]"),
        (["--containers", "100000"], 2, "containers = 100000 is outside"),
        (["--host", "203.0.113.7"], 1, "203.0.113.7"),
        (["--host", "fe80::1%none"], 1, "cannot listen on [fe80::1%none]:"),
        (["--host", ""], 2, "host is empty"),
        (["--config", "/does/not/exist.toml"], 2, "/does/not/exist.toml"),
        (["--ready-file", "/proc/none/ready.json"], 1, "/proc/none"),
    ],
)
def test_what_cannot_work_is_refused_in_one_line(arguments, code, words):
    found, line = refused("--in-memory", *ANY_PORTS, *arguments)
    assert found == code
    assert words in line


def test_an_unknown_setting_is_refused_with_the_known_ones(tmp_path):
    config = tmp_path / "headrace.toml"
    config.write_text("cash_bytes = 5\n")
    code, line = refused("--in-memory", *ANY_PORTS, "--config", str(config))
    assert code == 2
    assert "cash_bytes" in line
    assert "cache_bytes" in line


def test_a_data_directory_that_is_a_file_is_refused(tmp_path):
    (tmp_path / "data").write_text("mine")
    code, line = refused(*ANY_PORTS, "--data-dir", str(tmp_path / "data"))
    assert code == 2
    assert str(tmp_path / "data") in line
    assert (tmp_path / "data").read_text() == "mine"


def test_the_ready_file_appears_when_ready_and_goes_with_the_server(server):
    addresses = server.start()
    ready = server.directory / "ready-1.json"
    assert addresses.keys() == {"controller", "segmentstore", "rest", "tls", "pid"}
    for part in ("controller", "segmentstore", "rest"):
        host, _, port = addresses[part].partition(":")
        socket.create_connection((host, int(port)), 5).close()
    assert server.stop() == 0
    assert not ready.exists()
    assert [path.name for path in server.directory.iterdir() if path.name.startswith(".ready")] == []


@pytest.mark.slow
def test_the_ready_file_of_a_killed_server_is_no_promise_of_the_next(server):
    server.start()
    server.kill()
    ready = server.directory / "ready-1.json"
    assert ready.exists()
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        port = str(holder.getsockname()[1])
        data = str(server.directory / "data")
        refused(*ANY_PORTS, "--data-dir", data, "--ready-file", str(ready), "--controller-port", port)
    assert not ready.exists()


def test_in_memory_leaves_nothing_on_disk(tmp_path):
    ready, release = os.pipe()
    process = subprocess.Popen(
        [sys.executable, "-m", "headrace.cli.main", "standalone", "--in-memory", *ANY_PORTS],
        cwd=tmp_path,
        stderr=release,
    )
    os.close(release)
    with os.fdopen(ready) as said:
        assert any("is ready" in line for line in said)
        assert list(tmp_path.iterdir()) == []
        process.send_signal(signal.SIGINT)
        assert process.wait(120) == 0
    assert list(tmp_path.iterdir()) == []


def test_nothing_takes_the_place_of_standard_streams_that_were_closed(tmp_path):
    """What libraries write to the standard error would go into a file or a socket of ours."""
    ready = tmp_path / "ready"
    process = subprocess.Popen(
        [
            *("sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh", sys.executable, "-m", "headrace.cli.main"),
            *("standalone", "--in-memory", *ANY_PORTS, "--ready-file", str(ready)),
        ],
        cwd=tmp_path,
    )
    try:
        while not ready.exists():
            assert process.poll() is None
            select.select([], [], [], 0.01)  # nothing tells us about a new file on every platform
        assert [str(Path(f"/proc/{process.pid}/fd/{number}").readlink()) for number in range(3)] == [
            os.devnull
        ] * 3
        process.send_signal(signal.SIGTERM)
        assert process.wait(120) == 0
    finally:
        process.kill()
        process.wait()


def test_a_server_whose_log_nobody_reads_goes_on_and_ends_when_told(tmp_path):
    """A stopped terminal or a pager: its loop waited for room for a line, for ever."""
    ready = tmp_path / "ready"
    reading, writing = os.pipe()
    fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, 4096)
    process = programs.Popen(
        [
            *(sys.executable, "-m", "headrace.cli.main", "standalone", "--in-memory", *ANY_PORTS),
            *("--ready-file", str(ready)),
        ],
        stderr=writing,
    )
    os.close(writing)
    try:
        while not ready.exists():
            assert process.poll() is None
            select.select([], [], [], 0.01)  # nothing tells us about a new file on every platform
        host, _, port = json.loads(ready.read_text())["segmentstore"].partition(":")
        for _ in range(40):  # each is worth a line, and half of them fit
            with socket.create_connection((host, int(port)), 10) as connection:
                connection.sendall(b"\xff" * 8)
                connection.settimeout(10)
                assert connection.recv(100) == b""
        process.send_signal(signal.SIGTERM)
        assert process.wait(120) == 0
    finally:
        process.kill()
        process.wait()
        os.close(reading)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_under_load_ends_the_server_soon_and_keeps_every_acknowledged_event(server, number):
    server.start()
    acknowledged = []
    loaded = asyncio.Event()
    async with connect(server.uri) as client:
        await create(client)

        async def write(writer_number):
            async with client.event_writer("demo", "stream", GIVE_UP) as writer:
                for sequence in range(1_000_000):
                    event = f"{writer_number}:{sequence}".encode()
                    await writer.write(event, str(writer_number))
                    acknowledged.append(event)
                    if len(acknowledged) > 300:
                        loaded.set()

        writing = [asyncio.create_task(write(each)) for each in range(8)]
        await asyncio.wait_for(loaded.wait(), 120)
        server.process.send_signal(number)
        assert await asyncio.to_thread(server.process.wait, 120) == 0
        await asyncio.gather(*writing, return_exceptions=True)  # the server they knew does not come back
    assert "Traceback" not in server.log()
    server.start()
    async with connect(server.uri) as client:
        found = await read_all(client)
    assert len(set(found)) == len(found)
    assert set(acknowledged) <= set(found)


async def test_a_signal_while_readers_wait_and_connections_idle_ends_the_server(server):
    server.start()
    async with connect(server.uri) as client:
        await create(client)
        host, _, port = server.addresses["segmentstore"].partition(":")
        idle = [await asyncio.open_connection(host, int(port)) for _ in range(50)]
        readers = [await client.event_reader("demo", "stream") for _ in range(5)]
        waiting = [asyncio.ensure_future(anext(aiter(reader))) for reader in readers]
        async with client.event_writer("demo", "stream") as writer:
            await writer.write(b"go", "key")
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        server.process.send_signal(signal.SIGTERM)
        assert await asyncio.to_thread(server.process.wait, 120) == 0
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        for _, writer in idle:
            writer.close()
    assert "Traceback" not in server.log()


def test_a_signal_while_the_server_starts_ends_it(tmp_path):
    process = subprocess.Popen(
        [
            *(sys.executable, "-X", "importtime", "-m", "headrace.cli.main", "standalone", *ANY_PORTS),
            *("--data-dir", str(tmp_path / "data"), "--ready-file", str(tmp_path / "ready.json")),
        ],
        stderr=subprocess.PIPE,
        text=True,
    )
    assert any("headrace.processes.standalone" in line for line in process.stderr)  # nearly there
    process.send_signal(signal.SIGTERM)
    _, said = process.communicate(timeout=120)
    assert process.returncode in {0, -signal.SIGTERM}
    assert "Traceback" not in said
    assert not (tmp_path / "ready.json").exists()


def test_what_is_asked_of_the_command_is_in_its_help():
    said = programs.run(
        [sys.executable, "-m", "headrace.cli.main", "standalone", "--help"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    for option in ("--data-dir", "--in-memory", "--ready-file", "--containers", "--config"):
        assert option in said
