"""Segment stores of one cluster, each a process, on one data directory: what they serve, and what they never
acknowledge. The leader is in the test.
"""

import asyncio
import json
import signal
import sys
from contextlib import AsyncExitStack, asynccontextmanager

import httpx
import pytest

from headrace.cluster.facts_node import Facts
from headrace.cluster.facts_store import create_facts
from headrace.cluster.placement_service import PlacementService
from headrace.data_directory.record import FORMAT
from headrace.errors import ConnectionLostError
from headrace.model.hashing import container_of
from headrace.runtime.clock import SystemClock
from headrace.runtime.entropy import SystemEntropy
from headrace.runtime.host_id import find_host_id
from headrace.testing.wire_client import WireClient
from headrace.wire import commands as c
from tests import programs
from tests.zookeeper_cluster import Cluster

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.real_loop]

HEADRACE = [sys.executable, "-m", "headrace.cli.main"]
CONTAINERS = 4
WRITER = bytes(range(16))
SEGMENTS = {}
"""A segment of each container."""
for _number in range(1000):
    SEGMENTS.setdefault(container_of(f"s/t/{_number}", CONTAINERS), f"s/t/{_number}")
POLL_S = 0.02
LONG_S = 120


class Store:
    def __init__(self, directory, coordinator):
        self.directory = directory
        directory.mkdir(exist_ok=True)
        self.ready = directory / "ready.json"
        self.coordinator = coordinator
        self.process = None
        self.addresses = {}

    def command(self):
        return [
            *(*HEADRACE, "segmentstore", "--coordinator", self.coordinator, "--port", "0"),
            *("--rest-port", "0", "--ready-file", str(self.ready)),
        ]

    def start(self):
        self.ready.unlink(missing_ok=True)
        with (self.directory / "log").open("ab") as log:
            self.process = programs.Popen(self.command(), stderr=log)

    async def started(self):
        async with asyncio.timeout(LONG_S):
            while not self.ready.exists():
                assert self.process.poll() is None, self.log()
                await asyncio.sleep(POLL_S)
        self.addresses = json.loads(self.ready.read_text())

    def log(self):
        return (self.directory / "log").read_text()

    def signal(self, number):
        self.process.send_signal(number)

    async def ended(self):
        return await asyncio.to_thread(self.process.wait, LONG_S)

    def kill(self):
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    async def ask(self, path):
        async with httpx.AsyncClient(trust_env=False, timeout=60) as web:
            return await web.get(f"http://{self.addresses['rest']}{path}")

    @property
    def address(self):
        return self.addresses["segmentstore"]


class Stores:
    """Two of them, and the leader that places containers."""

    def __init__(self, stack, directory, coordinator, leader):
        self.leader = leader
        self.all = [Store(directory / name, coordinator) for name in ("first", "second")]
        for store in self.all:
            stack.callback(store.kill)

    def owners(self):
        """Return the address of the live owner of each container that has one."""
        stores, claims = self.leader.placement.stores, self.leader.placement.claims
        return {n: str(stores[each.store].endpoint) for n, each in claims.items() if each.store in stores}

    async def until_owned(self, is_right):
        async with asyncio.timeout(LONG_S):
            while len(found := self.owners()) < CONTAINERS or not is_right(found):  # noqa: ASYNC110
                await asyncio.sleep(POLL_S)
        return found


@asynccontextmanager
async def cluster_of_two(zookeeper, tmp_path):
    async with AsyncExitStack() as stack:
        cluster = await stack.enter_async_context(Cluster(zookeeper))
        facts = Facts(
            *("00112233445566778899aabbccddeeff", CONTAINERS, 16),
            *(f"file://{tmp_path}/data", f"file://{tmp_path}/chunks", FORMAT, find_host_id()),
        )
        await create_facts(await cluster.open(), facts)
        leader = PlacementService(cluster.coordinator(), CONTAINERS, SystemClock(), SystemEntropy())
        leader.start()
        stack.push_async_callback(leader.stop)
        uri = f"zk://127.0.0.1:{zookeeper.port}/{cluster.root}?session_s=2&margin_s=0.5"
        stores = Stores(stack, tmp_path, uri, leader)
        for store in stores.all:
            store.start()
        for store in stores.all:
            await store.started()
        yield stores


async def connected(address):
    host, _, port = address.rpartition(":")
    return await WireClient.connect(host, int(port), LONG_S)


async def served(address, request):
    """Return the answer once the container answers: a claim is made before the last look at the log."""
    async with asyncio.timeout(LONG_S):
        while True:
            wire = await connected(address)
            try:
                answer = await wire.call(request, LONG_S)
                if not isinstance(answer, c.WrongHost):
                    return wire, answer
            except ConnectionLostError:
                pass
            wire.close()
            await asyncio.sleep(POLL_S)


async def writer_at(address, segment):
    wire, answer = await served(address, c.SetupAppend(1, WRITER, segment, ""))
    assert isinstance(answer, c.AppendSetup), answer
    return wire, answer.last_event_number


async def append(address, segment, number):
    wire, last = await writer_at(address, segment)
    assert last == (number - 1 if number > 1 else -(1 << 63))
    data = b"%d," % number
    answer = await wire.call(c.AppendBlockEnd(WRITER, len(data), data, 1, number, 2), LONG_S)
    assert isinstance(answer, c.DataAppended), answer
    wire.close()


async def read(address, segment):
    """Return all bytes: an answer may end where what was stored ends."""
    data = b""
    while True:
        wire, answer = await served(address, c.ReadSegment(segment, len(data), 1000, "", 1))
        assert isinstance(answer, c.SegmentRead), answer
        data += bytes(answer.data)
        wire.close()
        wire, info = await served(address, c.GetStreamSegmentInfo(1, segment, ""))
        wire.close()
        if len(data) == info.write_offset:
            return data


async def create_all(owners):
    for number, address in owners.items():
        wire, answer = await served(address, c.CreateSegment(1, SEGMENTS[number], 0, 0, ""))
        assert isinstance(answer, c.SegmentCreated), answer
        wire.close()
        await append(address, SEGMENTS[number], 1)


async def test_a_store_that_is_killed_is_replaced_with_all_that_was_acknowledged(zookeeper, tmp_path):
    async with cluster_of_two(zookeeper, tmp_path) as stores:
        killed, other = stores.all
        owners = await stores.until_owned(lambda found: len(set(found.values())) == 2)
        await create_all(owners)
        async with asyncio.timeout(LONG_S):
            while (await killed.ask("/ready")).status_code != 200:  # noqa: ASYNC110
                await asyncio.sleep(POLL_S)
        killed.kill()
        await stores.until_owned(lambda found: set(found.values()) == {other.address})
        for number, segment in SEGMENTS.items():
            await append(other.address, segment, 2)
            assert await read(other.address, segment) == b"1,2,", number
        assert "Traceback" not in other.log()


async def test_a_store_that_slept_acknowledges_nothing_and_one_that_leaves_is_relieved(zookeeper, tmp_path):
    async with cluster_of_two(zookeeper, tmp_path) as stores:
        sleeper, other = stores.all
        owners = await stores.until_owned(lambda found: len(set(found.values())) == 2)
        await create_all(owners)
        segment = next(SEGMENTS[n] for n, address in owners.items() if address == sleeper.address)
        late, _ = await writer_at(sleeper.address, segment)
        sleeper.signal(signal.SIGSTOP)
        await late.send([c.AppendBlockEnd(WRITER, 5, b"late,", 1, 2, 2)])
        await stores.until_owned(lambda found: set(found.values()) == {other.address})
        await append(other.address, segment, 2)
        sleeper.signal(signal.SIGCONT)
        with pytest.raises(ConnectionLostError):
            await late.receive(LONG_S)
        wire = await connected(sleeper.address)
        answer = await wire.call(c.SetupAppend(1, WRITER, segment, ""), LONG_S)
        assert isinstance(answer, c.WrongHost), answer
        wire.close()
        assert await read(other.address, segment) == b"1,2,"
        async with asyncio.timeout(LONG_S):
            while len(stores.leader.placement.stores) < 2:  # noqa: ASYNC110 - it is another member
                await asyncio.sleep(POLL_S)
        other.signal(signal.SIGTERM)
        await stores.until_owned(lambda found: set(found.values()) == {sleeper.address})
        assert await other.ended() == 0
        assert not other.ready.exists()
        await append(sleeper.address, segment, 3)
        assert await read(sleeper.address, segment) == b"1,2,3,"
        assert "Traceback" not in sleeper.log() + other.log()


async def test_without_a_cluster_a_store_does_not_start(zookeeper, tmp_path):
    async with Cluster(zookeeper) as cluster:
        store = Store(tmp_path, f"zk://127.0.0.1:{zookeeper.port}/{cluster.root}")
        refused = await asyncio.to_thread(
            programs.run, store.command(), capture_output=True, text=True, timeout=LONG_S, check=False
        )
    assert refused.returncode == 2
    assert "no cluster at zk://" in refused.stderr
    assert "headrace cluster init" in refused.stderr
