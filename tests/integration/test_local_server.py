"""The server that tests, examples and the demo start: found again, recovered, and gone in the end."""

import asyncio
import os
import select
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.client import blocking, connect
from headrace.errors import HeadraceError
from headrace.testing import LocalServer, ServerDiedError

pytestmark = pytest.mark.cluster


def is_alive(pid):
    return Path(f"/proc/{pid}").exists()


@pytest.mark.slow
async def test_what_was_acknowledged_is_found_at_the_same_address_after_a_kill():
    async with LocalServer() as server, connect(server.uri) as client:
        await client.create_scope("s")
        await client.create_stream("s", "t")
        async with client.event_writer("s", "t") as writer:
            await writer.write(b"one")
            addresses = {**server.addresses}
            await asyncio.to_thread(server.restart)
            assert {**server.addresses, "pid": None} == {**addresses, "pid": None}
            await writer.write(b"two")
        async with client.event_reader("s", "t", end="tail") as reader:
            assert [event.data async for event in reader] == [b"one", b"two"]


def test_nothing_is_left_of_it():
    with LocalServer(None, "--containers", "2") as server:
        directory, pid = server.directory, server.addresses["pid"]
        assert (directory / "data").is_dir()
        assert server.is_running
        resident = server.memory_bytes()
        assert server.memory_bytes(peak=True) >= resident > 1 << 20
    assert not directory.exists()
    assert not is_alive(pid)
    assert not server.is_running


@pytest.mark.slow
def test_a_directory_that_was_given_is_kept_and_serves_the_next(tmp_path):
    with LocalServer(tmp_path) as server, blocking.connect(server.uri) as client:
        client.create_scope("s")
    with LocalServer(tmp_path) as server, blocking.connect(server.uri) as client:
        assert "s" in list(client.list_scopes())
        assert server.stop() == 0
        assert server.stop() == 0
    assert server.log().count("is ready") == 2


def test_one_that_was_not_started_is_nowhere():
    server = LocalServer()
    for part in ("uri", "rest_url"):
        with pytest.raises(HeadraceError, match="was not started"):
            getattr(server, part)


def test_one_that_does_not_start_says_why():
    with (
        pytest.raises(ServerDiedError, match=r"exit 2: (.|\n)*no-such-setting"),
        LocalServer(None, "--no-such-setting") as server,
    ):
        pytest.fail(f"{server.addresses} is no server")


def test_one_that_is_left_running_outlives_its_starter(tmp_path):
    server = LocalServer(tmp_path, "--in-memory", own_session=True)
    server.start()
    with pytest.raises(HeadraceError, match="runs already"):
        server.start()
    process, pid = server.process, server.addresses["pid"]
    server.leave_running()
    server.close()
    assert is_alive(pid)
    process.kill()
    process.wait()


def test_what_it_says_can_be_waited_for():
    with LocalServer(None, "--in-memory") as server:
        server.wait_for_log("is ready")
        with pytest.raises(TimeoutError, match="is ready"):
            server.wait_for_log("a word that it never says", timeout_s=0.0)


STARTER = """
import sys
from headrace.testing import LocalServer
with LocalServer(sys.argv[1], "--in-memory") as server:
    print(server.addresses["pid"], flush=True)
    sys.stdin.read()
"""


@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="nothing waits for a process of others here")
def test_it_ends_with_its_starter_even_if_that_is_killed(tmp_path):
    command = [sys.executable, "-c", STARTER, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as starter:
        server = os.pidfd_open(int(starter.stdout.readline()))
        try:
            starter.kill()
            ended, _, _ = select.select([server], [], [], 60)
        finally:
            os.close(server)
    assert ended


def test_importing_it_loads_neither_client_nor_server():
    program = (
        "import sys; from headrace.testing import LocalServer; dir(sys.modules['headrace.testing']); "
        "print({'headrace.client', 'headrace.processes', 'asyncio'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
