"""The directory of a local cluster: what it refuses, and what it remembers."""

import json

import pytest

from headrace.errors import InvalidArgumentError
from headrace.local_cluster.commands import Ports
from headrace.local_cluster.directory import ClusterDirectory


def test_ports_are_remembered_for_the_next_start(tmp_path):
    directory = ClusterDirectory(tmp_path / "new")
    assert directory.ports_of("store-1") == Ports()
    directory.remember_ports("store-1", Ports(7, 8))
    directory.remember_ports("zookeeper", Ports(9))
    again = ClusterDirectory(tmp_path / "new")
    assert (again.ports_of("store-1"), again.ports_of("zookeeper")) == (Ports(7, 8), Ports(9))


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"store-1": 3}', '{"store-1": ["x", 1]}', '{"a": [1, 2, 3]}']
)
def test_ports_that_cannot_be_read_are_forgotten(tmp_path, text):
    directory = ClusterDirectory(tmp_path)
    directory.remember_ports("store-1", Ports(7, 8))
    (tmp_path / "run" / "ports.json").write_text(text)
    assert ClusterDirectory(tmp_path).ports_of("store-1") == Ports()


def test_the_data_of_a_standalone_server_are_refused_and_left_alone(tmp_path):
    (tmp_path / "headrace.json").write_text("{}")
    with pytest.raises(InvalidArgumentError, match="standalone server"):
        ClusterDirectory(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["headrace.json"]


def test_a_file_is_no_directory(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidArgumentError, match="is no directory"):
        ClusterDirectory(tmp_path / "file")


def test_the_last_line_that_a_process_said(tmp_path):
    directory = ClusterDirectory(tmp_path)
    assert directory.last_words("store-1") == ""
    directory.log("store-1").write_text("x" * 10_000 + "\nheadrace: no\n\n")
    assert directory.last_words("store-1") == "headrace: no"


def test_a_ready_file_of_an_earlier_process_counts_for_nothing(tmp_path):
    directory = ClusterDirectory(tmp_path)
    assert directory.read_ready("store-1", 7) is None
    directory.ready_file("store-1").write_text(json.dumps({"pid": 6}))
    assert directory.read_ready("store-1", 7) is None
    assert directory.read_ready("store-1", 6) == {"pid": 6}
