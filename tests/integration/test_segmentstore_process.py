"""``headrace segmentstore``: a segment store that is a process by itself, seen from outside."""

import json
import random
import signal
import socket
import sys
import threading

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families as parse

from headrace.controller.rest.metrics import CONTROLLER_METRICS
from headrace.testing import LocalServer
from headrace.testing.wire_client import WireClient
from headrace.wire import commands as c
from tests import programs

pytestmark = pytest.mark.cluster

HEADRACE = [sys.executable, "-m", "headrace.cli.main"]
SEGMENT = "s/t/0.#epoch.0"
WRITER = bytes(range(16))


class Store:
    """One process at a time on one directory."""

    def __init__(self, directory):
        self.directory = directory
        self.ready = directory / "ready.json"
        self.process = None
        self.addresses = {}

    def command(self):
        return [
            *(*HEADRACE, "segmentstore", "--coordinator", "memory", "--port", "0", "--rest-port", "0"),
            *("--data-dir", str(self.directory / "data"), "--ready-file", str(self.ready)),
        ]

    def start(self):
        self.ready.unlink(missing_ok=True)
        with (self.directory / "log").open("ab") as log:
            self.process = programs.Popen(self.command(), stderr=log)
        pause = threading.Event()
        for _ in range(12_000):
            if self.ready.exists():
                break
            assert self.process.poll() is None, self.log()
            pause.wait(0.01)  # nothing announces a new file
        self.addresses = json.loads(self.ready.read_text())
        return self

    def log(self):
        return (self.directory / "log").read_text()

    def end(self, number):
        self.process.send_signal(number)
        return self.process.wait(120)

    def get(self, path):
        return httpx.get(f"http://{self.addresses['rest']}{path}", trust_env=False, timeout=60)


async def connected(addresses):
    host, _, port = addresses["segmentstore"].rpartition(":")
    return await WireClient.connect(host, int(port), 120)


async def append(addresses, number, data):
    """Append ``data`` as this event of the writer, and wait for its acknowledgement."""
    wire = await connected(addresses)
    setup = await wire.call(c.SetupAppend(1, WRITER, SEGMENT, ""), 120)
    assert isinstance(setup, c.AppendSetup), setup
    answer = await wire.call(c.AppendBlockEnd(WRITER, len(data), data, 1, number, 2), 120)
    assert isinstance(answer, c.DataAppended), answer
    wire.close()
    return setup.last_event_number


async def create(addresses):
    wire = await connected(addresses)
    assert isinstance(await wire.call(c.CreateSegment(1, SEGMENT, 0, 0, ""), 120), c.SegmentCreated)
    wire.close()


async def read(addresses):
    wire = await connected(addresses)
    answer = await wire.call(c.ReadSegment(SEGMENT, 0, 1000, "", 1), 120)
    assert isinstance(answer, c.SegmentRead), answer
    data = bytes(answer.data)
    wire.close()
    return data


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    running = Store(tmp_path_factory.mktemp("segmentstore")).start()
    yield running
    assert running.process.poll() is None
    assert "Traceback" not in running.log()
    assert running.end(signal.SIGTERM) == 0
    assert not running.ready.exists()


def test_the_ready_file_has_its_addresses_and_its_number(store):
    assert store.addresses.keys() == {"segmentstore", "rest", "tls", "pid"}
    assert store.addresses["pid"] == store.process.pid
    assert f"headrace is ready: segment store {store.addresses['segmentstore']}, rest " in store.log()


def test_it_says_that_it_is_ready_and_how_its_containers_are(store):
    answer = store.get("/ready")
    assert answer.status_code == 200
    assert answer.json()["children"].keys() == {
        "longTermStorage",
        *(f"container-{number}" for number in range(4)),
    }
    for path in ("/live", "/health", "/v1/health", "/v1/health/container-0"):
        assert store.get(path).status_code == 200


def test_its_metrics_are_those_of_a_segment_store_and_of_nobody_else(store):
    families = {family.name: family for family in parse(store.get("/metrics").text)}
    online = {each.labels["container"]: each.value for each in families["headrace_container_online"].samples}
    assert online == dict.fromkeys("0123", 1.0)
    assert families["headrace_ready"].samples[0].value == 1.0
    assert not families.keys() & {metric.name for metric in CONTROLLER_METRICS}


def test_streams_are_not_asked_of_it(store):
    answer = store.get("/v1/scopes")
    assert answer.status_code == 404
    assert "/metrics" in answer.json()["error"]


async def test_garbage_closes_its_own_connection_and_no_other(store):
    host, _, port = store.addresses["segmentstore"].rpartition(":")
    wire = await connected(store.addresses)
    noise = random.Random(1)
    for size in (1, 8, 100, 5000):
        with socket.create_connection((host, int(port)), 60) as raw:
            raw.sendall(b"\xff" * 4 + noise.randbytes(size))
            raw.shutdown(socket.SHUT_WR)
            while raw.recv(1 << 16):
                pass
    assert isinstance(await wire.call(c.GetStreamSegmentInfo(1, "s/none", ""), 120), c.NoSuchSegment)
    wire.close()
    assert store.get("/ready").status_code == 200


@pytest.mark.slow
def test_a_second_one_on_its_directory_is_refused(store):
    refused = programs.run(store.command(), capture_output=True, text=True, timeout=120, check=False)
    assert refused.returncode == 3
    assert f"in use by pid {store.process.pid} " in refused.stderr
    assert store.ready.exists()


@pytest.mark.slow
async def test_what_was_acknowledged_outlives_a_kill_and_the_kind_of_process(tmp_path):
    store = Store(tmp_path).start()
    await create(store.addresses)
    await append(store.addresses, 1, b"one,")
    assert store.end(signal.SIGKILL) == -signal.SIGKILL
    store.start()
    assert await append(store.addresses, 2, b"two,") == 1
    assert store.end(signal.SIGTERM) == 0
    assert not store.ready.exists()
    with LocalServer(tmp_path) as standalone:
        assert await append(standalone.addresses, 3, b"three") == 2
        assert standalone.stop() == 0
    store.start()
    assert await read(store.addresses) == b"one,two,three"
    assert store.end(signal.SIGTERM) == 0
