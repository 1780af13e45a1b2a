"""``headrace cluster`` and ``headrace controller``: real processes over a real ZooKeeper.

Most tests have their segment store in the process of the test: it has all containers, and claims what the map
gives it.
"""

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
from contextlib import asynccontextmanager

import httpx
import pytest

from headrace.cli.cluster.cluster_session import in_session
from headrace.client import connect
from headrace.cluster.lease_gate import LeaseGate
from headrace.cluster.status import document_of
from headrace.cluster.store_member import StoreMember
from headrace.cluster.store_node import StoreNode
from headrace.controller.buckets.cluster_look import look
from headrace.coordination.coordinators import make_coordinator
from headrace.coordination.location import CoordinatorLocation
from headrace.runtime.blocking import SystemThreads
from headrace.runtime.entropy import SystemEntropy
from tests import programs
from tests.remote_stores import listening

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

HEADRACE = [sys.executable, "-m", "headrace.cli.main"]
CONTAINERS = 2
SESSION = "session_s=2&margin_s=0.5"


def headrace(*words, **variables):
    done = programs.run(
        [*HEADRACE, *words],
        check=False,
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, **variables},
    )
    assert "Traceback" not in done.stderr, done.stderr
    return done.returncode, done.stdout, done.stderr


def get(rest, path):
    return httpx.get(f"http://{rest}{path}", trust_env=False, timeout=60)


def wait_for(condition):
    pause = threading.Event()
    for _ in range(2400):
        if found := condition():
            return found
        pause.wait(0.05)  # nothing announces it
    raise AssertionError(f"{condition} did not come true")


class AllThere:
    """A host whose containers run already."""

    async def give(self, container_id):
        return 1

    async def take(self, container_id):
        pass

    async def confirm(self, container_id):
        pass


class Process:
    """A controller, or a segment store."""

    def __init__(self, directory, coordinator, *options, kind="controller"):
        directory.mkdir()
        self.ready, self.log_file = directory / "ready.json", directory / "log"
        with self.log_file.open("ab") as log:
            self.process = programs.Popen(
                [
                    *(*HEADRACE, kind, "--coordinator", coordinator, "--port", "0"),
                    *("--rest-port", "0", "--ready-file", str(self.ready), *options),
                ],
                stderr=log,
            )

    def log(self):
        return self.log_file.read_text()

    def addresses(self):
        """Where it is, once it is ready."""

        def read():
            assert self.process.poll() is None, self.log()
            return self.ready.exists() and json.loads(self.ready.read_text())

        return wait_for(read)

    def end(self, number):
        self.process.send_signal(number)
        code = self.process.wait(120)
        assert "Traceback" not in self.log(), self.log()
        return code


@pytest.fixture
def root(zookeeper, request):
    return f"zk://127.0.0.1:{zookeeper.port}/{request.node.name}?{SESSION}"


@pytest.fixture
def controllers(tmp_path, root):
    started = []

    def start(*options, kind="controller"):
        started.append(Process(tmp_path / f"{kind}-{len(started)}", root, *options, kind=kind))
        return started[-1]

    yield start
    for each in started:
        if each.process.poll() is None:
            each.process.kill()
            each.process.wait()


@asynccontextmanager
async def member_store(root):
    """Yield a segment store of this process, which takes part in the cluster."""
    async with listening(CONTAINERS) as (_, endpoint):
        coordinator = make_coordinator(CoordinatorLocation.parse(root), SystemThreads())
        member = StoreMember(
            coordinator, AllThere(), StoreNode(endpoint), CONTAINERS, LeaseGate(), SystemEntropy()
        )
        member.start()
        try:
            yield endpoint
        finally:
            await member.stop(0.0)


def born(root, tmp_path):
    return headrace(
        *("cluster", "init", "--coordinator", root, "--containers", str(CONTAINERS), "--buckets", "2"),
        *("--log", f"file://{tmp_path}/logs", "--storage", f"file://{tmp_path}/chunks", "--json"),
    )


def status(root):
    code, out, _ = headrace("cluster", "status", "--json", HEADRACE_COORDINATOR=root)
    return code, json.loads(out)


def seen(root):
    """The same, without a process for it: while something is waited for."""
    return document_of(in_session(root, look))


def test_a_cluster_is_born_once(root, tmp_path):
    code, out, _ = born(root, tmp_path)
    made = json.loads(out)
    assert code == 0
    assert (made["containers"], made["buckets"]) == (CONTAINERS, 2)
    code, _, refused = born(root, tmp_path)
    assert code == 2
    assert f"has a cluster already, with the data of system {made['system']}" in refused
    code, found = status(root)
    assert (code, found["served"], found["leader"]) == (4, False, None)
    assert found["facts"] == {**made, "opened": 0}
    assert "nobody leads: no controller is there" in found["problems"]
    assert "container 1 is not served: there is no segment store" in found["problems"]


def test_a_controller_of_a_cluster_that_was_never_born_says_what_to_do(root, controllers):
    controller = controllers()
    assert controller.process.wait(120) == 2
    assert "make it first, with headrace cluster init" in controller.log()


def test_a_controller_that_waits_for_stores_ends_in_order(root, tmp_path, controllers):
    assert born(root, tmp_path)[0] == 0
    controller = controllers()
    wait_for(lambda: seen(root)["leader"])
    assert controller.end(signal.SIGTERM) == 0
    assert "stopped before it was ready" in controller.log()
    assert seen(root)["candidates"] == []


def test_a_controller_loads_nothing_of_a_segment_store():
    loaded = "import sys, headrace.processes.controller_server; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", loaded], capture_output=True, text=True, check=True)
    assert "headrace.controller.server" in done.stdout
    for room in ("headrace.segmentstore", "headrace.storage", "headrace.wal"):
        assert room not in done.stdout


async def test_streams_are_made_written_and_read_through_controllers_that_come_and_go(
    root, tmp_path, controllers
):
    assert born(root, tmp_path)[0] == 0
    first = controllers()
    rest = await asyncio.to_thread(wait_for, lambda: seen(root)["leader"])
    ready = get(rest, "/ready")
    assert ready.status_code == 503
    assert ready.json()["children"]["cluster"]["details"]["waitsFor"].startswith("the segment stores")
    assert get(rest, "/live").status_code == 200
    async with member_store(root) as endpoint:
        addresses = await asyncio.to_thread(first.addresses)
        pid = first.process.pid
        assert addresses == {"controller": addresses["controller"], "rest": rest, "tls": False, "pid": pid}
        await write_and_read(addresses, [b"one"], create=True)
        code, found = await asyncio.to_thread(status, root)
        assert code == 0, found
        assert [each["address"] for each in found["containers"]] == [str(endpoint)] * CONTAINERS
        assert found["controllers"][0]["buckets"] == [0, 1]

        second = controllers()
        others = await asyncio.to_thread(second.addresses)
        await write_and_read(others, [b"one", b"two"])
        first.process.kill()
        await asyncio.to_thread(wait_for, lambda: has_taken_over(others, seen(root)))
        await write_and_read(others, [b"one", b"two", b"three"])
        assert await asyncio.to_thread(second.end, signal.SIGTERM) == 0
        assert not second.ready.exists()
        code, found = await asyncio.to_thread(status, root)
        assert (code, found["candidates"], found["controllers"]) == (4, [], [])


async def test_a_store_and_the_controller_that_leads_are_killed_and_nothing_is_lost(
    root, tmp_path, controllers
):
    assert born(root, tmp_path)[0] == 0
    stores = [controllers(kind="segmentstore"), controllers(kind="segmentstore")]
    ports = [(await asyncio.to_thread(each.addresses))["segmentstore"] for each in stores]
    leader = controllers()
    await asyncio.to_thread(leader.addresses)
    other = controllers()
    addresses = await asyncio.to_thread(other.addresses)
    events = [b"number %d of many" % number for number in range(200)]
    async with connect(f"tcp://{addresses['controller']}") as client:
        await client.create_scope("s")
        await client.create_stream("s", "t", segments=2)
        async with client.event_writer("s", "t") as writer:
            await writer.write_many(events[:100], ["key"] * 100)
            found = await asyncio.to_thread(seen, root)
            serving = found["containers"][0]["address"]
            stores[ports.index(serving)].process.kill()
            leader.process.kill()
            await writer.write_many(events[100:], ["key"] * 100)
        assert await client.create_stream("s", "u")
        async with client.event_reader("s", "t", end="tail") as reader:
            assert [bytes(data) async for batch in reader.batches() for data in batch] == events
    found = await asyncio.to_thread(seen, root)
    assert (found["leader"], found["problems"]) == (addresses["rest"], [])
    assert has_bytes(tmp_path, b" of many")
    uri = f"tcp://{addresses['controller']}"
    await asyncio.to_thread(headrace, "stream", "truncate", "s/t", "--to", "tail", "--yes", "--uri", uri)
    rest = f"http://{addresses['rest']}/v1"
    async with httpx.AsyncClient(trust_env=False, timeout=120) as web:
        assert (await web.post(f"{rest}/scopes/s/streams/t/purge")).status_code == 200
        assert not has_bytes(tmp_path, b" of many")
        counted = (await web.get(f"{rest}/debug/statistics")).json()
        assert (len(counted["containers"]), len(counted["stores"]), counted["unanswered"]) == (2, 1, [])
        assert (await web.get(f"{rest}/cluster/health")).json()["readiness"] is True
    left = next(each for each in stores if each.process.poll() is None)
    assert await asyncio.to_thread(other.end, signal.SIGTERM) == 0
    assert await asyncio.to_thread(left.end, signal.SIGTERM) == 0


def has_bytes(directory, wanted):
    """Whether a file of the cluster has these bytes."""
    files = (each for part in ("logs", "chunks") for each in (directory / part).rglob("*") if each.is_file())
    return any(wanted in each.read_bytes() for each in files)


def has_taken_over(addresses, found):
    """The dead had two sessions, which do not end at the same moment: as candidate, and for its buckets."""
    alone = [each["address"] for each in found["controllers"]] == [addresses["controller"]]
    return alone and found["leader"] == addresses["rest"] and not found["freeBuckets"]


async def write_and_read(addresses, events, *, create=False):
    """Write the last of these events, and find all of them in order; then make another stream."""
    async with connect(f"tcp://{addresses['controller']}") as client:
        if create:
            await client.create_scope("s")
            await client.create_stream("s", "t", segments=2)
        async with client.event_writer("s", "t") as writer:
            writer.write(events[-1], "key")
        async with client.event_reader("s", "t", end="tail") as reader:
            assert [bytes(data) async for batch in reader.batches() for data in batch] == events
        assert await client.create_stream("s", f"t-{len(events)}")
