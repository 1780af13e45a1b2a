"""``headrace cluster status`` asks a controller: the same report and exit code as of the coordinator."""

import asyncio
import json

import pytest

from headrace.cli import main as entry
from headrace.cluster.status import document_of
from headrace.controller.buckets.cluster_look import look
from headrace.processes.cluster_containers import in_session
from headrace.processes.config import StandaloneConfig
from headrace.processes.standalone import StandaloneServer
from tests.cluster_in_process import PASSWORD, cluster_in_process

pytestmark = [pytest.mark.slow, pytest.mark.real_loop]


async def run(*words):
    """Run a command beside this loop; return its exit code."""
    return await asyncio.to_thread(entry.main, ["cluster", "status", *words])


async def test_a_controller_says_what_the_coordinator_knows(tmp_path, capsys, monkeypatch):
    monkeypatch.delenv("HEADRACE_COORDINATOR", raising=False)
    async with cluster_in_process(tmp_path) as cluster:
        uri, ca = f"tls://{cluster.controllers[0]}", str(cluster.config.tls_authorities)
        async with asyncio.timeout(60), cluster.connect() as client:
            await client.create_scope("s")  # both containers are served by now
        assert await run("--uri", uri, "--tls-ca", ca) == 2, "nobody said who asks"
        assert "HEADRACE_USER" in capsys.readouterr().err
        monkeypatch.setenv("HEADRACE_USER", "ann")
        monkeypatch.setenv("HEADRACE_PASSWORD", PASSWORD)
        assert await run("--uri", uri, "--tls-ca", ca, "--json") == 0
        expected = document_of(await in_session(cluster.coordinator, look))
        assert expected["served"]
        assert json.loads(capsys.readouterr().out) == json.loads(json.dumps(expected))

        monkeypatch.setenv("HEADRACE_URI", uri)  # no coordinator is named
        await cluster.store.stop()
        assert await run("--tls-ca", ca) == 4
        told = capsys.readouterr()
        assert cluster.controllers[0] in told.out
        assert "container 0 is not served: there is no segment store" in told.err
        assert await run("--uri", uri, "--coordinator", "zk://localhost:1/root") == 2
        assert "exclude each other" in capsys.readouterr().err


async def test_a_server_by_itself_says_that_it_is_no_cluster(capsys):
    ports = dict.fromkeys(("controller_port", "segmentstore_port", "rest_port"), 0)
    server = StandaloneServer(StandaloneConfig(in_memory=True, **ports))
    addresses = await server.start()
    try:
        assert await run("--uri", f"tcp://{addresses.controller}") == 2
        assert "this server is no cluster" in capsys.readouterr().err
    finally:
        await server.stop()
