"""Addresses that a server listens on and tells: what clients are told is where they can connect."""

import asyncio
import contextlib
import json
import socket
import sys
import urllib.error
import urllib.request

import pytest

from headrace.client import connect
from headrace.client.blocking import connect as connect_blocking
from headrace.rpc.generated import controller_pb2 as pb
from headrace.rpc.generated.controller_pb2_grpc import ControllerServiceStub
from headrace.testing import LocalServer
from headrace.testing.local_server import HEADRACE
from tests import programs

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

EVERY_ADDRESS = "0.0.0.0"


def has_ipv6():
    with contextlib.suppress(OSError), socket.socket(socket.AF_INET6) as probe:
        probe.bind(("::1", 0))
        return True
    return False


needs_ipv6 = pytest.mark.skipif(not has_ipv6(), reason="this machine has no IPv6")


def port_of(address):
    return int(address.rpartition(":")[2])


def write_and_read(uri):
    """Use a server as a client does that knows nothing but its URI."""
    with connect_blocking(uri) as client:
        client.create_scope("s")
        client.create_stream("s", "t")
        with client.event_writer("s", "t") as writer:
            writer.write(b"an event")
        with client.event_reader("s", "t", end="tail") as reader:
            return [event.data for event in reader]


def headrace(*words):
    done = programs.run([*HEADRACE, *words], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


async def told_endpoints(target):
    """What a controller answers to clients of the protocol that look for segments and controllers."""
    import grpc

    async with grpc.aio.insecure_channel(target) as channel:
        stub = ControllerServiceStub(channel)
        segment = pb.SegmentId(streamInfo=pb.StreamInfo(scope="s", stream="t"), segmentId=0)
        owner = await stub.getURI(segment)
        controllers = await stub.getControllerServerList(pb.ServerRequest())
    return (owner.endpoint, owner.port), [(node.endpoint, node.port) for node in controllers.nodeURI]


def test_a_server_on_every_address_tells_the_one_that_was_given():
    with LocalServer(None, "--in-memory", "--host", EVERY_ADDRESS, "--advertise", "127.0.0.2") as server:
        addresses = {part: server.addresses[part] for part in ("controller", "segmentstore", "rest")}
        assert {address.rpartition(":")[0] for address in addresses.values()} == {"127.0.0.2"}
        server.wait_for_log("headrace is ready")  # said once the ready file is there
        assert all(address in server.log() for address in addresses.values())
        assert server.log().count("listens on 0.0.0.0 without TLS and without users") == 1
        # By another of its addresses: data come from the one that is told.
        controller = f"127.0.0.3:{port_of(addresses['controller'])}"
        assert write_and_read(f"tcp://{controller}") == [b"an event"]
        owner, controllers = asyncio.run(told_endpoints(controller))
        assert owner == ("127.0.0.2", port_of(addresses["segmentstore"]))
        assert controllers == [("127.0.0.2", port_of(addresses["controller"]))]
        assert write_and_read(f"pravega://{controller}") == 2 * [b"an event"]
        with urllib.request.urlopen(f"http://{addresses['rest']}/v1/health/readiness") as answer:
            assert json.load(answer) is True


class Forwarder:
    """A mapped port, as a container has: passes bytes on to a server, and counts connections."""

    def __init__(self):
        self.connections = 0
        self.target = 0
        self._tasks = set()

    async def __aenter__(self):
        self._server = await asyncio.start_server(self._forward, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_):
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _forward(self, reader, writer):
        self._tasks.add(asyncio.current_task())
        self.connections += 1
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self.target)
        try:
            await asyncio.gather(self._pump(reader, far_writer), self._pump(far_reader, writer))
        finally:
            writer.close()
            far_writer.close()

    @staticmethod
    async def _pump(reader, writer):
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
        writer.close()


async def test_clients_go_through_the_ports_that_a_container_maps():
    async with Forwarder() as controller, Forwarder() as segmentstore:
        server = LocalServer(
            None,
            *("--in-memory", "--host", EVERY_ADDRESS, "--advertise", "localhost"),
            *("--advertise-controller", f"localhost:{controller.port}"),
            *("--advertise-segmentstore", f"127.0.0.1:{segmentstore.port}"),
        )
        ports = {part: free_port() for part in ("controller", "segmentstore")}
        server.arguments += tuple(
            word for part, port in ports.items() for word in (f"--{part}-port", str(port))
        )
        controller.target, segmentstore.target = ports["controller"], ports["segmentstore"]
        async with server:
            assert server.uri == f"tcp://localhost:{controller.port}"
            assert server.addresses["segmentstore"] == f"127.0.0.1:{segmentstore.port}"
            async with connect(server.uri) as client:
                await client.create_scope("s")
                await client.create_stream("s", "t")
                async with client.event_writer("s", "t") as writer:
                    await writer.write(b"an event")
                async with client.event_reader("s", "t", end="tail") as reader:
                    assert [event.data async for event in reader] == [b"an event"]
        assert controller.connections
        assert segmentstore.connections


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@needs_ipv6
def test_an_ipv6_address_works_in_the_ready_file_in_uris_and_on_the_command_line():
    with LocalServer(None, "--in-memory", "--host", "::1") as server:
        for part in ("controller", "segmentstore", "rest"):
            assert server.addresses[part] == f"[::1]:{port_of(server.addresses[part])}"
        assert write_and_read(server.uri) == [b"an event"]
        assert headrace("event", "read", "s/t", "--uri", server.uri) == "an event\n"
        assert headrace("inspect", "cache", "--rest", server.addresses["rest"])
        server.wait_for_log(f"rest {server.addresses['rest']};")
        unreachable = f"tcp://[::1]:{free_port()}"
        failed = programs.run(
            [*HEADRACE, "scope", "list", "--uri", unreachable],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert unreachable in failed.stderr


@needs_ipv6
@pytest.mark.parametrize("advertised", ["127.0.0.1", "::1"])
def test_every_ipv6_address_means_every_ipv4_address_too(advertised):
    with LocalServer(None, "--in-memory", "--host", "::", "--advertise", advertised) as server:
        assert write_and_read(server.uri) == [b"an event"]
        for host in ("127.0.0.1", "[::1]"):
            port = port_of(server.addresses["rest"])
            with urllib.request.urlopen(f"http://{host}:{port}/v1/health/readiness") as answer:
                assert json.load(answer) is True
        server.restart()
        assert write_and_read(server.uri) == [b"an event"]


def test_rest_answers_for_names_of_the_server_and_for_no_others():
    listed = {"HEADRACE_REST_HOSTS": "proxy.example.org, metrics.example.org"}
    told = ("--advertise-rest", "stream-1.example.org")
    with LocalServer(None, "--in-memory", *told, environment=listed) as server:
        port = port_of(server.addresses["rest"])
        names = ["127.0.0.1", "localhost", socket.gethostname(), *told[1:], *listed.values()]
        statuses = {}
        for name in [*", ".join(names).split(", "), "attacker.example"]:
            address = f"http://127.0.0.1:{port}/v1/scopes"
            request = urllib.request.Request(address, headers={"Host": f"{name}:{port}"})
            try:
                with urllib.request.urlopen(request) as answer:
                    statuses[name] = answer.status
            except urllib.error.HTTPError as error:
                statuses[name] = error.code
        assert statuses.pop("attacker.example") == 421
        assert len(statuses) >= 6
        assert set(statuses.values()) == {200}


def test_a_wildcard_alone_is_refused_with_what_to_do():
    done = programs.run(
        [sys.executable, "-m", "headrace.cli.main", "standalone", "--in-memory", "--host", EVERY_ADDRESS],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 2
    assert "every address of this machine" in done.stderr
    assert "--advertise HOST" in done.stderr
    assert done.stdout == ""
