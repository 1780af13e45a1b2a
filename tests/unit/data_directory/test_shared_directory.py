"""A directory that the stores of one cluster use together, and nobody else."""

import asyncio
import json

import pytest

from headrace.cluster.facts_node import Facts
from headrace.data_directory.advised_commands import serve_command
from headrace.data_directory.record import recorded_cluster
from headrace.data_directory.shared_directory import check_facts, directory_of, take_shared_directory
from headrace.data_directory.taken_directory import take_directory
from headrace.errors import DataCorruptionError, DirectoryLockedError, InvalidArgumentError, PreconditionError
from headrace.processes.config import StandaloneConfig
from headrace.runtime.context import system_runtime
from headrace.runtime.host_id import find_host_id

SYSTEM = "00112233445566778899aabbccddeeff"
WHERE = "zk://h1:2181/root"


def facts_at(directory, *, system=SYSTEM, containers=4, opened=(), version=2, host=""):
    log = f"file://{directory}/wal"
    return Facts(system, containers, 16, log, f"file://{directory}/chunks", version, host, frozenset(opened))


def take(facts):
    return asyncio.run(take_shared_directory(facts, system_runtime(), WHERE))


def test_several_stores_have_it_and_record_once_what_it_is_for(tmp_path):
    async def take_all():
        taking = (
            take_shared_directory(facts_at(tmp_path / "data"), system_runtime(), WHERE) for _ in range(5)
        )
        return await asyncio.gather(*taking)

    taken = asyncio.run(take_all())
    assert {(each.containers, each.store.system) for each in taken} == {(4, SYSTEM)}
    record = json.loads((tmp_path / "data" / "headrace.json").read_text())
    assert record == {"format": 2, "containers": 4, "system": SYSTEM, "cluster": WHERE}
    for each in taken:
        each.release()


def test_it_says_whose_it_is_and_what_starts_a_store_there(tmp_path):
    directory, files = str(tmp_path / "data"), system_runtime().filesystem
    assert serve_command(files, directory) == f"headrace standalone --data-dir {directory}"
    for where in ("zk://h:1/first", "zk://h:1/first", "zk://h:1/moved"):
        asyncio.run(take_shared_directory(facts_at(directory), system_runtime(), where)).release()
        assert recorded_cluster(files, directory) == where
        assert serve_command(files, directory) == f"headrace segmentstore --coordinator {where}"
    (tmp_path / "data" / "headrace.json").write_text("[]")
    assert recorded_cluster(files, directory) == ""


def test_a_tool_and_the_stores_exclude_each_other(tmp_path):
    whole = StandaloneConfig(data_dir=str(tmp_path))
    first, second = take(facts_at(tmp_path)), take(facts_at(tmp_path))
    first.release()
    with pytest.raises(DirectoryLockedError, match="in use by pid"):
        take_directory(whole, system_runtime(), of_cluster=True)
    second.release()
    tool = take_directory(whole, system_runtime(), of_cluster=True)
    with pytest.raises(DirectoryLockedError, match="in use by pid"):
        take(facts_at(tmp_path))
    tool.release()


def test_a_server_that_is_alone_is_told_how_the_stores_of_the_cluster_start(tmp_path):
    take(facts_at(tmp_path)).release()
    before = (tmp_path / "headrace.json").read_bytes()
    with pytest.raises(PreconditionError, match=f"headrace segmentstore --coordinator {WHERE}"):
        take_directory(StandaloneConfig(data_dir=str(tmp_path)), system_runtime())
    assert (tmp_path / "headrace.json").read_bytes() == before


@pytest.mark.parametrize("other", [{"system": "ff" * 16}, {"containers": 8}])
def test_data_of_another_system_are_left_alone(tmp_path, other):
    take(facts_at(tmp_path)).release()
    before = (tmp_path / "headrace.json").read_bytes()
    with pytest.raises(InvalidArgumentError, match="nothing was changed"):
        take(facts_at(tmp_path, **other))
    assert (tmp_path / "headrace.json").read_bytes() == before


def test_a_cluster_with_data_does_not_begin_anew_where_there_are_none(tmp_path):
    with pytest.raises(DataCorruptionError, match="mount its file system"):
        take(facts_at(tmp_path, opened={0}))
    assert not (tmp_path / "headrace.json").exists()


def test_logs_are_found_in_their_data_directory():
    assert directory_of("file:///data/wal") == directory_of("file:///data") == "/data"
    with pytest.raises(InvalidArgumentError, match="in no directory"):
        directory_of("s3://bucket/log")


def test_a_cluster_of_another_machine_or_of_a_later_version_is_not_joined():
    check_facts(facts_at("/data", host=find_host_id()))
    with pytest.raises(PreconditionError, match="start its segment stores there"):
        check_facts(facts_at("/data", host="0011223344556677"))
    with pytest.raises(PreconditionError, match="install a newer one"):
        check_facts(facts_at("/data", version=99))
