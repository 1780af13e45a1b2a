"""A process that cannot take part at the format of its cluster does not start, and one that runs ends."""

import asyncio
import json
from dataclasses import replace

import pytest

from headrace.cluster.facts_node import Facts
from headrace.cluster.facts_store import create_facts, update_facts
from headrace.coordination.memory import MemoryCoordinator
from headrace.data_directory.shared_directory import take_shared_directory
from headrace.errors import PreconditionError
from headrace.model.data_format import DATA_FORMAT
from headrace.processes.cluster_containers import in_session
from headrace.processes.cluster_store import ClusterStoreServer
from headrace.processes.cluster_store_config import ClusterStoreConfig
from headrace.processes.controller_config import ControllerServerConfig
from headrace.processes.controller_server import ControllerServer
from headrace.runtime.context import system_runtime

pytestmark = pytest.mark.real_loop
TOLD = f"is at format {DATA_FORMAT + 1}, and this version of Headrace takes part at {DATA_FORMAT}: "


def facts_at(directory, version=DATA_FORMAT):
    log, chunks = f"file://{directory}/wal", f"file://{directory}/chunks"
    return Facts("00112233445566778899aabbccddeeff", 1, 16, log, chunks, version)


def servers(coordinator):
    at = {"coordinator": "zk://localhost/root", "controller_port": 0, "rest_port": 0}
    yield ClusterStoreServer(ClusterStoreConfig(segmentstore_port=0, rest_port=0), coordinator, "memory")
    yield ControllerServer(ControllerServerConfig(**at), coordinator=coordinator)


async def test_it_does_not_start(tmp_path):
    coordinator = MemoryCoordinator()
    later = facts_at(tmp_path, DATA_FORMAT + 1)
    await in_session(coordinator, lambda session: create_facts(session, later))
    for server in servers(coordinator):
        with pytest.raises(PreconditionError, match=TOLD):
            await server.start()
    assert not [*tmp_path.iterdir()]


@pytest.mark.slow
async def test_it_ends_when_the_cluster_is_raised_beside_it(tmp_path):
    coordinator = MemoryCoordinator()
    await in_session(coordinator, lambda session: create_facts(session, facts_at(tmp_path)))
    ended = asyncio.Queue()
    store, controller = servers(coordinator)
    await store.start(ended.put_nowait)
    starting = asyncio.ensure_future(controller.start(ended.put_nowait))
    try:
        await starting

        def later(facts):
            return replace(facts, format=DATA_FORMAT + 1)

        await in_session(coordinator, lambda session: update_facts(session, later))
        async with asyncio.timeout(60):
            for _ in range(2):
                error = await ended.get()
                assert isinstance(error, PreconditionError)
                assert TOLD in str(error)
    finally:
        starting.cancel()
        await asyncio.wait([starting])
        await controller.stop()
        await store.stop()


async def test_a_store_records_the_format_of_its_cluster_and_not_its_own(tmp_path):
    """A release that knows less goes on reading the directory until the cluster is raised."""
    runtime = system_runtime()
    formats = []
    for version in (DATA_FORMAT - 1, DATA_FORMAT - 1, DATA_FORMAT, DATA_FORMAT - 1):
        (await take_shared_directory(facts_at(tmp_path, version), runtime, "zk://h/root")).release()
        formats.append(json.loads((tmp_path / "headrace.json").read_text())["format"])
    assert formats == [DATA_FORMAT - 1, DATA_FORMAT - 1, DATA_FORMAT, DATA_FORMAT]
