"""A standalone server that was killed becomes a cluster, over a real ZooKeeper: its streams go on."""

import asyncio
import json
from contextlib import AsyncExitStack

import pytest

from headrace.cli.cluster.cluster_session import in_session
from headrace.cli.cluster.init import init_cluster
from headrace.client import connect
from headrace.cluster.facts_store import read_facts
from headrace.controller.config import ControllerConfig
from headrace.coordination.coordinators import make_coordinator
from headrace.coordination.location import CoordinatorLocation
from headrace.errors import PreconditionError
from headrace.processes.cluster_store import ClusterStoreServer
from headrace.processes.cluster_store_config import ClusterStoreConfig
from headrace.processes.config import StandaloneConfig
from headrace.processes.controller_config import ControllerServerConfig
from headrace.processes.controller_server import ControllerServer
from headrace.processes.standalone import StandaloneServer
from headrace.runtime.blocking import SystemThreads
from headrace.testing.local_server import LocalServer

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.real_loop]

BUCKETS = 3
PORTS = {"segmentstore_port": 0, "rest_port": 0}
STORED, UNSTORED, COMMITTED, LATER = (
    [b"%s-%d" % (name, number) for number in range(50)] for name in (b"stored", b"log", b"txn", b"later")
)


def alone(directory):
    return StandaloneServer(
        StandaloneConfig(
            **PORTS,
            data_dir=str(directory),
            containers=2,
            controller_port=0,
            controller=ControllerConfig(buckets=BUCKETS),
        )
    )


def init(root, directory):
    init_cluster(
        coordinator=root,
        containers=None,
        buckets=None,
        log=None,
        storage=None,
        from_data_dir=str(directory),
        as_json=True,
    )


async def write(client, events):
    async with client.event_writer("s", "t") as writer:
        await writer.write_many(events, ["key"] * len(events))


async def read(client):
    async with client.event_reader("s", "t", end="tail") as reader:
        return [bytes(data) async for batch in reader.batches() for data in batch]


async def has_stored_half_and_is_killed(directory):
    """Leave events in chunks, events in logs alone, and an open transaction; return its id."""
    server = alone(directory / "data")
    addresses = await server.start()
    async with connect(f"tcp://{addresses.controller}") as client:
        await client.create_scope("s")
        await client.create_stream("s", "t", segments=2)
        await write(client, STORED)
    await server.stop()  # all is stored
    process = LocalServer(directory, environment={"HEADRACE_CONTROLLER__BUCKETS": str(BUCKETS)})
    try:
        await asyncio.to_thread(process.start)
        async with connect(process.uri) as client:
            await write(client, UNSTORED)
            async with client.txn_writer("s", "t") as writer:
                transaction = await writer.begin()
                for event in COMMITTED:
                    transaction.write(event, "key")
                await transaction.flush()
                return transaction.detach()
    finally:
        process.kill()


async def test_a_standalone_directory_goes_on_as_that_of_a_cluster(zookeeper, tmp_path, capsys):
    root = f"zk://127.0.0.1:{zookeeper.port}/{tmp_path.name}"
    transaction = await has_stored_half_and_is_killed(tmp_path)
    await asyncio.to_thread(init, root, tmp_path / "data")
    made = json.loads(capsys.readouterr().out)
    assert (made["containers"], made["buckets"]) == (2, None)
    await asyncio.to_thread(init, root, tmp_path / "data")  # repeated
    assert json.loads(capsys.readouterr().out) == made
    with pytest.raises(PreconditionError, match=f"headrace segmentstore --coordinator {root}"):
        await alone(tmp_path / "data").start()
    async with AsyncExitStack() as stack:
        controller = ControllerServer(
            ControllerServerConfig(coordinator=root, controller_port=0, rest_port=0)
        )
        starting = asyncio.ensure_future(controller.start())
        for _ in range(2):
            location = CoordinatorLocation.parse(root)
            store = ClusterStoreServer(
                ClusterStoreConfig(**PORTS), make_coordinator(location, SystemThreads()), location.place
            )
            await store.start()
            stack.push_async_callback(store.stop)
        stack.push_async_callback(controller.stop)
        addresses = await starting
        async with connect(f"tcp://{addresses.controller}") as client:
            assert await read(client) == STORED + UNSTORED
            await client.commit_transaction("s", "t", transaction)
            async with asyncio.timeout(60):
                while (await client.transaction_status("s", "t", transaction)).name != "COMMITTED":  # noqa: ASYNC110
                    await asyncio.sleep(0.02)  # nothing announces it
            await write(client, LATER)
            assert await read(client) == STORED + UNSTORED + COMMITTED + LATER
            assert await client.create_stream("s", "u")
    facts = await asyncio.to_thread(in_session, root, read_facts)
    assert (facts.system, facts.buckets, facts.opened) == (made["system"], BUCKETS, {0, 1})
