"""Stores of a cluster whose logs are on bookies take over from one another, with no directory in common."""

from contextlib import AsyncExitStack

from headrace.cli.cluster.init import make_facts
from headrace.client import connect
from headrace.cluster.facts_store import create_facts
from headrace.coordination.memory import MemoryCoordinator
from headrace.processes.cluster_store import ClusterStoreServer
from headrace.processes.cluster_store_config import ClusterStoreConfig
from headrace.processes.controller_config import ControllerServerConfig
from headrace.processes.controller_server import ControllerServer
from headrace.security.config import AuthConfig
from tests.bookies.real_logs import NAMES
from tests.stores.test_log_in_bucket import ENVIRONMENT, EVENTS, beside, place, read_all


async def test_a_store_that_leaves_hands_its_logs_to_another_with_a_directory_of_its_own(
    tmp_path, monkeypatch, bookkeeper
):
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    coordinator, where = MemoryCoordinator(), "zk://localhost/root"
    with beside() as s3:
        facts = make_facts(2, 8, bookkeeper.uri(f"?system={next(NAMES)}"), place(s3, "chunks"))
        assert facts.host == ""
        session = await coordinator.open()
        await create_facts(session, facts)
        await session.close()
        async with AsyncExitStack() as stack:
            key = tmp_path / "key"
            key.write_bytes(b"0123456789abcdef" * 4)
            auth = AuthConfig(token_key=str(key))
            stores = []
            for name in ("one", "two"):
                config = ClusterStoreConfig(
                    data_dir=str(tmp_path / name), segmentstore_port=0, rest_port=0, auth=auth
                )
                stores.append(ClusterStoreServer(config, coordinator, where))
                await stores[-1].start()
                stack.push_async_callback(stores[-1].stop)
            config = ControllerServerConfig(coordinator=where, controller_port=0, rest_port=0, auth=auth)
            controller = ControllerServer(config, coordinator=coordinator)
            address = (await controller.start()).controller
            stack.push_async_callback(controller.stop)
            async with connect(f"tcp://{address}") as client:
                await client.create_scope("s")
                await client.create_stream("s", "t")
                async with client.event_writer("s", "t") as writer:
                    await writer.write_many(EVENTS[:150], ["key"] * 150)
                    await stores[0].stop()
                    await writer.write_many(EVENTS[150:], ["key"] * 150)
                assert await read_all(client) == EVENTS
