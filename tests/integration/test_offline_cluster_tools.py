"""Tools that change the data of a cluster ask it first, in this process, with a real ZooKeeper."""

import asyncio

import pytest

from headrace.cli.main import main
from headrace.cluster.claim_node import Claim, claim_path, encode_container_claim
from headrace.cluster.facts_node import FACTS, Facts, encode_facts
from headrace.cluster.facts_store import create_facts
from headrace.cluster.store_node import StoreNode, encode_store, store_path
from headrace.data_directory.shared_directory import take_shared_directory
from headrace.model.endpoint import Endpoint
from headrace.runtime.context import system_runtime
from tests.zookeeper_cluster import Cluster

pytestmark = [pytest.mark.cluster, pytest.mark.real_loop]


async def test_what_changes_data_is_refused_while_a_store_has_a_claim(zookeeper, tmp_path, capsys):
    directory, chunks = tmp_path / "data", f"file://{tmp_path}/data/chunks"

    async def run(*words):
        code = await asyncio.to_thread(main, ["storage", *words])
        captured = capsys.readouterr()
        return code, captured.out + captured.err

    async with Cluster(zookeeper) as cluster:
        uri = f"zk://127.0.0.1:{zookeeper.port}/{cluster.root}"
        facts = Facts("00112233445566778899aabbccddeeff", 2, 16, f"file://{directory}", chunks, 2)
        session = await cluster.open(session_s=10.0)
        await create_facts(session, facts)
        (await take_shared_directory(facts, system_runtime(), uri)).release()
        await session.create(store_path("a"), encode_store(StoreNode(Endpoint("h", 12345))), ephemeral=True)
        claim = encode_container_claim(Claim("a", 1))
        await session.create(claim_path(1), claim, ephemeral=True)

        repair = ("repair", "--data-dir", str(directory), "--yes")
        rebuild = ("rebuild", "--storage", chunks, "--data-dir", str(tmp_path / "rebuilt"))
        code, said = await run(*repair)
        assert (code, f"name it with --coordinator {uri}" in said) == (2, True), said
        for words in (repair, rebuild):
            code, said = await run(*words, "--coordinator", uri)
            assert "is in use by segment store h:12345 of the cluster at" in said
            assert "which serves containers 1: stop all stores of it first" in said
            assert code == 3
        assert not (tmp_path / "rebuilt").exists()
        assert (await run("repair", "--data-dir", str(directory), "--dry-run"))[0] == 0

        await session.delete(claim_path(1), 0)
        assert (await run(*repair, "--coordinator", uri))[0] == 0
        assert "no storage checkpoint" in (await run(*rebuild, "--coordinator", uri))[1]

        other = await cluster.open()
        elsewhere = Facts("ff" * 16, 2, 16, f"file://{tmp_path}/other", f"file://{tmp_path}/others", 2)
        await other.write(FACTS, encode_facts(elsewhere), 0)
        code, said = await run(*repair, "--coordinator", uri)
        assert (code, "not of the one at" in said) == (2, True)
