"""A person who follows a stream on a terminal is told when the server is away and when it is back."""

import os
import pty
import subprocess

import pytest

from headrace.testing import LocalServer
from headrace.testing.local_server import HEADRACE
from tests import programs

pytestmark = [pytest.mark.cluster, pytest.mark.slow]


def read_line(terminal):
    """Return a line as the terminal gets it."""
    line = b""
    while not line.endswith(b"\n"):
        line += os.read(terminal, 1)
    return line.decode().strip()


@pytest.fixture
def server(tmp_path):
    server = LocalServer(tmp_path, "--containers", "1")
    server.start()
    yield server
    server.close()


def run(server, *words):
    programs.run([*HEADRACE, *words, "--uri", server.uri], check=True, capture_output=True)


def test_a_follower_on_a_terminal_is_told_that_the_server_is_away_and_back(server):
    run(server, "scope", "create", "demo")
    run(server, "stream", "create", "demo/t")
    run(server, "event", "write", "demo/t", "before")
    ours, theirs = pty.openpty()
    command = [*HEADRACE, "event", "read", "demo/t", "--follow", "--uri", server.uri]
    follower = programs.Popen(command, stdout=theirs, stderr=theirs)
    try:
        assert read_line(ours) == "before"
        server.stop()
        assert read_line(ours).startswith("the server is away, waiting for it: ")
        server.start()
        assert read_line(ours) == "the server is back"
        run(server, "event", "write", "demo/t", "after")
        assert read_line(ours) == "after"
        run(server, "stream", "seal", "demo/t", "--yes")
        assert follower.wait(120) == 0
    finally:
        follower.kill()
        follower.wait()
        os.close(ours)
        os.close(theirs)


def test_a_follower_whose_errors_go_elsewhere_is_told_nothing(server):
    run(server, "scope", "create", "demo")
    run(server, "stream", "create", "demo/t")
    run(server, "event", "write", "demo/t", "before")
    command = [*HEADRACE, "event", "read", "demo/t", "--follow", "--uri", server.uri]
    follower = programs.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        assert follower.stdout.readline() == b"before\n"
        server.restart()
        run(server, "event", "write", "demo/t", "after")
        assert follower.stdout.readline() == b"after\n"
        run(server, "stream", "seal", "demo/t", "--yes")
        assert follower.communicate(timeout=120) == (b"", b"")
    finally:
        follower.kill()
