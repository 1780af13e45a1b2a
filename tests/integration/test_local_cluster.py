"""``headrace cluster local``: a cluster in processes, its ready file, kills, and what a next start finds."""

import asyncio
import json
import os
import signal
import time
from pathlib import Path

import pytest

import headrace.aio
from headrace.cli.main import main
from headrace.errors import UnsupportedError
from headrace.local_cluster.zookeeper import find_java
from headrace.model.data_format import DATA_FORMAT
from headrace.testing.local_server import HEADRACE
from tests import programs

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.real_loop]

LONG_S = 120
POLL_S = 0.05
COMMAND = [*HEADRACE, "cluster", "local", "--controllers", "1", "--stores", "2"]


@pytest.fixture(scope="module")
def java():
    try:
        find_java()
    except UnsupportedError as error:
        pytest.skip(str(error))


class Local:
    def __init__(self, directory):
        self.ready = directory / "ready.json"
        self.log = directory / "log"
        self.command = [*COMMAND, "--data-dir", str(directory / "data"), "--ready-file", str(self.ready)]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()

    def start(self):
        with self.log.open("ab") as log:
            self.process = programs.Popen(self.command, stdout=log, stderr=log)
        return self.until(lambda told: True)

    def until(self, is_right):
        """Return what the ready file says, once that is right."""
        deadline = time.monotonic() + LONG_S
        while not (self.ready.exists() and is_right(told := json.loads(self.ready.read_text()))):
            assert self.process.poll() is None, self.log.read_text()
            assert time.monotonic() < deadline, self.log.read_text()
            time.sleep(POLL_S)
        return told


def is_gone(pid):
    """Whether a process has ended; one that waits to be fetched has."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def wait_gone(pids):
    deadline = time.monotonic() + LONG_S
    while not all(map(is_gone, pids)):
        assert time.monotonic() < deadline
        time.sleep(POLL_S)


async def write(told, events):
    async with headrace.aio.connect(f"tcp://{','.join(told['controllers'])}") as client:
        await client.create_scope("s")
        await client.create_stream("s/t", segments=2)
        await client.write("s/t", events)


async def read(told, count):
    async with headrace.aio.connect(f"tcp://{','.join(told['controllers'])}") as client:
        found = []
        async for event in client.read("s/t"):
            found.append(bytes(event.data))
            if len(found) == count:
                break
        return sorted(found)


@pytest.mark.usefixtures("java")
def test_a_cluster_restarts_its_dead_goes_on_after_a_kill_and_ends_in_order(tmp_path, capsys):
    events = sorted(b"%d" % number for number in range(20))
    with Local(tmp_path) as local:
        told = local.start()
        assert told["pid"] == local.process.pid
        assert len(told["stores"]) == 2
        asyncio.run(asyncio.wait_for(write(told, events), LONG_S))
        assert main(["cluster", "finalize", "--coordinator", told["coordinator"]]) == 0
        assert f"at format {DATA_FORMAT} already: nothing to do" in capsys.readouterr().out
        killed = told["stores"][0]
        os.kill(killed["pid"], signal.SIGKILL)
        again = local.until(lambda told: killed["id"] not in {each["id"] for each in told["stores"]})
        again = local.until(lambda told: len(told["stores"]) == 2)
        assert killed["pid"] not in again["pids"].values()
        assert again["controllers"] == told["controllers"]
        local.process.kill()
        local.process.wait()
        wait_gone(again["pids"].values())
        local.ready.unlink()

        last = local.start()
        assert last["coordinator"] == told["coordinator"]
        assert last["controllers"] == told["controllers"]
        assert asyncio.run(asyncio.wait_for(read(last, len(events)), LONG_S)) == events
        local.process.terminate()
        assert local.process.wait(LONG_S) == 0
        assert not local.ready.exists()
        wait_gone(last["pids"].values())
        assert "Traceback" not in local.log.read_text()
        assert "does not end" not in local.log.read_text()


def test_without_java_it_says_what_is_needed_and_makes_nothing(tmp_path):
    refused = programs.run(
        [*COMMAND, "--data-dir", str(tmp_path / "data")],
        env={**os.environ, "PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=LONG_S,
    )
    assert refused.returncode == 2
    assert "needs Java" in refused.stderr
    assert "--coordinator zk://" in refused.stderr
    assert not (tmp_path / "data").exists()
