"""A disk that fills beneath a real server: nothing acknowledged is lost, and it goes on when it can."""

import asyncio
import json
import re
import subprocess
import urllib.error
import urllib.request

import pytest

from headrace.client import WriterConfig, connect
from headrace.client.reconnect_policy import ReconnectPolicy
from headrace.testing import LocalServer, ServerDiedError
from headrace.testing.local_server import HEADRACE
from tests import programs

pytestmark = pytest.mark.cluster

PAYLOAD = bytes(100_000)


class SmallDisk:
    """A file system in memory whose size is known, and can be changed."""

    def __init__(self, path):
        self.path = path
        path.mkdir()

    def mount(self, *arguments):
        return subprocess.run(
            ["mount", *arguments, str(self.path)], capture_output=True, text=True, check=False
        )

    def resize(self, mebibytes):
        assert self.mount("-o", f"remount,size={mebibytes}m").returncode == 0


@pytest.fixture
def disk(tmp_path):
    disk = SmallDisk(tmp_path / "disk")
    try:
        mounted = disk.mount("-t", "tmpfs", "-o", "size=100m", "tmpfs")
    except OSError as error:
        pytest.skip(f"no mount command: {error}")
    if mounted.returncode:
        pytest.skip(f"file systems cannot be mounted here: {mounted.stderr.strip()}")
    yield disk
    subprocess.run(["umount", "-l", str(disk.path)], check=False)


@pytest.fixture
def server(disk, tmp_path):
    server = LocalServer(tmp_path / "server", "--containers", "1", "--data-dir", str(disk.path / "data"))
    server.start()
    yield server
    server.close()


class Filler:
    """Writes one numbered event after the other until it is told to stop."""

    def __init__(self, client, give_up_s=120.0):
        self._client = client
        self._config = WriterConfig(reconnect=ReconnectPolicy(give_up_s=give_up_s))
        self.acknowledged = 0
        self.goal = 0
        self.reached = asyncio.Event()
        self.stopping = False

    async def run(self):
        async with self._client.event_writer("demo", "stream", self._config) as writer:
            while not self.stopping:
                await writer.write(self.acknowledged.to_bytes(4, "big") + PAYLOAD, "key")
                self.acknowledged += 1
                if self.acknowledged >= self.goal:
                    self.reached.set()

    async def wait_more(self, events):
        self.reached.clear()
        self.goal = self.acknowledged + events
        await asyncio.wait_for(self.reached.wait(), 60)


async def create(client):
    await client.create_scope("demo")
    await client.create_stream("demo", "stream")


async def numbers(client):
    async with client.event_reader("demo", "stream", end="tail") as reader:
        return [
            int.from_bytes(bytes(payload[:4]), "big")
            async for batch in reader.batches()
            for payload in batch.payloads()
        ]


TYPED = int.from_bytes(b"more", "big")
"""What a command has written, as a number."""

HELD_UP = "appends wait until there is"


@pytest.mark.slow
async def test_writers_wait_while_the_disk_is_full_readers_do_not_and_all_go_on_when_there_is_space(
    server, disk, caplog
):
    async with connect(server.uri) as client:
        await create(client)
        filler = Filler(client)
        filling = asyncio.create_task(filler.run())
        await asyncio.to_thread(server.wait_for_log, HELD_UP)
        for _ in range(3):
            acknowledged = filler.acknowledged
            found = await asyncio.wait_for(numbers(client), 120)
            assert found == list(range(len(found)))
            assert len(found) >= acknowledged
        assert not filling.done()
        status, health = await asyncio.to_thread(ready, server)
        assert (status, health["status"]) == (503, "UP")
        assert health["details"]["notReady"] == "container-0 (waits for space on the disk of the log)"
        assert (await asyncio.to_thread(ask, server.addresses["rest"], "/live"))["liveness"] is True
        command = [*HEADRACE, "event", "write", "demo/stream", "more", "--uri", server.uri]
        typed = programs.Popen(command, stderr=subprocess.PIPE, text=True)
        said = await asyncio.to_thread(typed.stderr.readline)
        store = server.addresses["segmentstore"]
        silence = (
            f"no acknowledgement from {store} for 10 s for 1 segment of stream demo/stream; events are kept"
        )
        assert silence in said
        async with asyncio.timeout(60):
            while silence not in "".join(caplog.messages):  # noqa: ASYNC110 - the writer of the library, by its own timer
                await asyncio.sleep(0.05)
        details = await asyncio.to_thread(ask, server.addresses["rest"], "/v1/health/details/container-0")
        assert details == {"restarts": "0", "lastFailure": "", "waitsFor": "space on the disk of the log"}
        disk.resize(500)
        await filler.wait_more(20)
        filler.stopping = True
        await filling
        _, said = await asyncio.to_thread(typed.communicate, timeout=60)
        assert f"acknowledgements from {store} for stream demo/stream go on after" in said
        assert typed.returncode == 0
        assert sum("go on after" in line for line in caplog.messages) == 1
        assert (await asyncio.to_thread(ready, server))[0] == 200
        found = await numbers(client)
        assert sorted(found) == sorted([*range(filler.acknowledged), TYPED])
    # A full disk is no damage: nothing may say so.
    log = server.log()
    assert "DataCorruptionError" not in log
    assert "there is space again" in log
    assert "ended:" not in log  # the container never went away
    assert server.stop() == 0
    server.start()
    async with connect(server.uri) as client:
        assert await numbers(client) == found


@pytest.mark.slow
async def test_a_full_server_stops_when_told_and_waits_for_space_when_it_is_started_again(server, disk):
    async with connect(server.uri) as client:
        await create(client)
        filler = Filler(client, give_up_s=0.5)
        filling = asyncio.create_task(filler.run())
        await asyncio.to_thread(server.wait_for_log, HELD_UP)
        assert await asyncio.to_thread(server.stop, 15) == 0
        await asyncio.gather(filling, return_exceptions=True)
    # Told to stop while it waits, it stops.
    said = len(server.log())
    starting = asyncio.create_task(asyncio.to_thread(server.start, 60))
    await asyncio.to_thread(wait_for_more, server, said)
    assert "container 0 did not start: StorageFullError: no space left" in server.log()[said:]
    assert not starting.done()
    assert await asyncio.to_thread(server.stop, 15) == 0
    assert isinstance((await asyncio.gather(starting, return_exceptions=True))[0], ServerDiedError)
    # It says why, and goes on by itself.
    starting = asyncio.create_task(asyncio.to_thread(server.start, 60))
    said = len(server.log())
    await asyncio.to_thread(wait_for_more, server, said)
    rest = re.findall(r"health is served at http://(\S+)", server.log())[-1]
    health = await asyncio.to_thread(ask, rest, "/v1/health/container-0")
    assert (health["status"], health["readiness"]) == ("DOWN", False)
    assert "no space left" in health["details"]["lastFailure"]
    assert health["details"]["waitsFor"] == "space on the disk of the log"
    found = await asyncio.to_thread(ask, rest, "/v1/debug/statistics")
    assert "no space left" in found["containers"]["0"]["health"]["last_failure"]
    whole = await asyncio.to_thread(ask, rest, "/v1/health")
    assert (whole["status"], whole["readiness"], whole["liveness"]) == ("STARTING", False, True)
    disk.resize(500)
    await starting
    assert "Traceback" not in server.log()
    whole = await asyncio.to_thread(ask, rest, "/v1/health")
    assert (whole["status"], whole["readiness"], whole["details"]) == ("UP", True, {})
    async with connect(server.uri) as client:
        found = await numbers(client)
        assert found[: filler.acknowledged] == list(range(filler.acknowledged))
        assert len(found) <= filler.acknowledged + 1  # one was on its way
        async with client.event_writer("demo", "stream") as writer:
            await writer.write(b"goes on", "key")


def wait_for_more(server, said):
    """Wait until a server that was started now has failed to start its container."""
    server.wait_for_log("did not start", after=said)


def ready(server):
    """Return status and document of /ready."""
    try:
        with urllib.request.urlopen(f"{server.rest_url}/ready", timeout=120) as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.loads(error.read())


def ask(address, path):
    with urllib.request.urlopen(f"http://{address}{path}", timeout=120) as answer:
        return json.loads(answer.read())
