"""A controller by itself: what it waits for, whom it trusts, and what it does not take."""

import asyncio
from contextlib import asynccontextmanager

import httpx
import pytest

from headrace.client import ClientConfig, Credentials, connect
from headrace.cluster.facts_node import Facts
from headrace.cluster.facts_store import create_facts
from headrace.cluster.lease_gate import LeaseGate
from headrace.cluster.store_member import StoreMember
from headrace.cluster.store_node import StoreNode
from headrace.errors import InvalidArgumentError, PreconditionError
from headrace.processes.controller_config import ControllerServerConfig
from headrace.processes.controller_server import ControllerServer
from headrace.processes.process_config import RestConfig
from headrace.runtime.clock import SystemClock
from headrace.runtime.entropy import SystemEntropy
from headrace.runtime.settings_sources import load
from headrace.security.certificates import ServerCertificates
from headrace.security.config import AuthConfig
from headrace.security.tls_config import TlsConfig
from headrace.security.tokens import TokenKey
from headrace.testing.coordination_faults import CoordinationFaults, FaultyCoordinator
from headrace.testing.users_files import write_users_file
from tests.certificates import CertificateFiles
from tests.remote_stores import listening

AT = {"coordinator": "zk://localhost/root", "controller_port": 0, "rest_port": 0}
FACTS = Facts("aa", 2, 2, "file:///logs", "file:///chunks", 2)


class AllThere:
    """A host whose containers run already."""

    async def give(self, container_id):
        return 1

    async def take(self, container_id):
        pass

    async def confirm(self, container_id):
        pass


@asynccontextmanager
async def cluster():
    """Yield what processes of a new cluster agree through; in the end every session is over."""
    coordinator = FaultyCoordinator(SystemEntropy(), CoordinationFaults())
    session = await coordinator.open()
    await create_facts(session, FACTS)
    await session.close()
    try:
        yield coordinator
    finally:
        for session in [*coordinator.sessions]:
            await session.close()


@asynccontextmanager
async def member_store(coordinator, **protection):
    async with listening(FACTS.containers, **protection) as (_, endpoint):
        member = StoreMember(
            coordinator, AllThere(), StoreNode(endpoint), FACTS.containers, LeaseGate(), SystemEntropy()
        )
        member.start()
        try:
            yield endpoint
        finally:
            await member.stop(0.0)


async def until(condition):
    async with asyncio.timeout(60):
        while not await condition():  # noqa: ASYNC110 - nothing sets an event
            await asyncio.sleep(0.01)


@pytest.mark.real_loop
@pytest.mark.slow
async def test_it_is_alive_before_there_are_stores_and_goes_on_when_its_sessions_are_over(tmp_path):
    ready_file = tmp_path / "ready.json"
    ready_file.write_text("of a process that was killed")
    async with cluster() as coordinator:
        config = ControllerServerConfig(**AT, ready_file=str(ready_file))
        server = ControllerServer(config, coordinator=coordinator)
        starting = asyncio.ensure_future(server.start())
        observer = await coordinator.observe()

        async def leader():
            names = await observer.children("leader")
            node = await observer.read(f"leader/{names[0]}") if names else None
            return b"" if node is None else node.data

        try:
            await until(leader)
            assert not ready_file.exists()
            address = (await leader())[20:].decode()
            async with httpx.AsyncClient(base_url=f"http://{address}", trust_env=False, timeout=60) as web:
                waiting, alive = await web.get("/ready"), await web.get("/live")
                assert (waiting.status_code, alive.status_code) == (503, 200)
                about = waiting.json()["children"]["cluster"]
                assert about["details"]["served"] == "0 of 2"
                assert about["details"]["waitsFor"].startswith("the segment stores")
                async with member_store(coordinator):
                    addresses = await starting
                    assert addresses.rest == address
                    assert (await web.get("/ready")).status_code == 200
                    async with connect(f"tcp://{addresses.controller}") as client:
                        await client.create_scope("s")
                        for session in [*coordinator.sessions]:
                            session.expire()
                        assert await client.create_stream("s", "t")

                        async def is_back():
                            buckets = await observer.children("buckets")
                            return len(buckets) == FACTS.buckets and await leader()

                        await until(is_back)
                        assert await client.create_stream("s", "u")
                    details = (await web.get("/ready")).json()["children"]["cluster"]["details"]
                    assert details == {"leads": "yes", "stores": "1", "served": "2 of 2"}
                    metrics = (await web.get("/metrics")).text
                    for line in ("leads 1.0", "stores 1.0", "containers 2.0", "containers_served 2.0"):
                        assert f"\nheadrace_cluster_{line}\n" in metrics
        finally:
            starting.cancel()
            await asyncio.wait([starting])
            await server.stop()
            assert await observer.children("leader") == []
            await observer.close()


@pytest.mark.real_loop
@pytest.mark.slow
@pytest.mark.parametrize(("console", "status"), [(True, 503), (False, 404)])
async def test_its_pages_for_browsers_can_be_left_out(console, status):
    async with cluster() as coordinator:
        config = ControllerServerConfig(**AT, rest=RestConfig(console=console))
        server = ControllerServer(config, coordinator=coordinator)
        starting = asyncio.ensure_future(server.start())
        observer = await coordinator.observe()

        async def leader():
            names = await observer.children("leader")
            node = await observer.read(f"leader/{names[0]}") if names else None
            return b"" if node is None else node.data

        try:
            await until(leader)
            address = (await leader())[20:].decode()
            async with httpx.AsyncClient(base_url=f"http://{address}", trust_env=False, timeout=60) as web:
                assert (await web.get("/live")).status_code == 200
                page = await web.get("/console/")
                # There is no store yet, so there is nothing to show.
                assert (page.status_code, "<html" in page.text) == (status, console)
        finally:
            starting.cancel()
            await asyncio.wait([starting])
            await server.stop()
            await observer.close()


@pytest.mark.real_loop
@pytest.mark.slow
async def test_it_speaks_tls_with_stores_and_shows_them_a_token(tmp_path):
    files = CertificateFiles(tmp_path / "certificates")
    write_users_file(tmp_path / "users", {"ann": ("crimson-password", "prn::*,READ_UPDATE")})
    key = b"0123456789abcdef" * 4
    (tmp_path / "key").write_bytes(key)
    tls = TlsConfig(cert=str(files.cert), key=str(files.key))
    config = ControllerServerConfig(
        **AT,
        tls=tls,
        store_authority=str(files.ca),
        auth=AuthConfig(users=str(tmp_path / "users"), token_key=str(tmp_path / "key")),
    )
    contexts = ServerCertificates(tls, SystemClock()).context
    async with cluster() as coordinator, member_store(coordinator, token_key=TokenKey(key), tls=contexts):
        server = ControllerServer(config, coordinator=coordinator)
        addresses = await server.start()
        assert addresses.as_dict()["tls"] is True
        try:
            client_config = ClientConfig(
                tls_authorities=files.ca, credentials=Credentials.basic("ann", "crimson-password")
            )
            async with connect(f"tls://{addresses.controller}", client_config) as client:
                await client.create_scope("s")
                await client.create_stream("s", "t")
                async with client.event_writer("s", "t") as writer:
                    writer.write(b"one", "key")
                async with client.event_reader("s", "t", end="tail") as reader:
                    assert [bytes(data) async for batch in reader.batches() for data in batch] == [b"one"]
        finally:
            await server.stop()


@pytest.mark.real_loop
async def test_a_cluster_that_was_not_made_is_no_place_for_it():
    coordinator = FaultyCoordinator(SystemEntropy(), CoordinationFaults())
    server = ControllerServer(ControllerServerConfig(**AT), coordinator=coordinator)
    with pytest.raises(PreconditionError, match="make it first, with headrace cluster init"):
        await server.start()


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({}, "name it with --coordinator"),
        ({"coordinator": "memory://"}, "reaches no other process"),
        ({"coordinator": "zk://localhost"}, "names the node below which the cluster is"),
        ({"coordinator": "zk://localhost/root", "auth.users": "users"}, r"setting\s+auth\.token_key"),
        ({"coordinator": "zk://localhost/root", "store_authority": "ca.pem"}, "needs tls.cert"),
        ({"coordinator": "zk://localhost/root", "host": "0.0.0.0"}, "--advertise HOST"),
    ],
)
def test_what_could_not_work_is_refused_before_anything_is_touched(settings, told):
    with pytest.raises(InvalidArgumentError, match=told):
        load(ControllerServerConfig, overrides=settings)


@pytest.mark.parametrize("key", ["data_dir", "segmentstore_port", "containers", "container.eviction.bytes"])
def test_a_setting_of_a_segment_store_is_refused(key):
    with pytest.raises(InvalidArgumentError, match=f"unknown setting '{key}'"):
        load(ControllerServerConfig, overrides={"coordinator": "zk://localhost/root", key: "1"})
