"""What processes of a local cluster are started with, and what its ready file says."""

from headrace.local_cluster.commands import Ports, command_of, inherited, ready_document
from headrace.local_cluster.supervision import Kind


def test_a_store_is_the_command_that_anybody_could_type():
    assert command_of(Kind.STORE, "python", "zk://h:1/r", Ports(1, 2), "f.json") == [
        *(
            "python",
            "-m",
            "headrace",
            "segmentstore",
            "--coordinator",
            "zk://h:1/r",
            "--ready-file",
            "f.json",
        ),
        *("--port", "1", "--rest-port", "2"),
    ]
    assert command_of(Kind.CONTROLLER, "python", "zk://h:1/r", Ports(), "f")[3] == "controller"


def test_settings_of_the_environment_reach_the_kinds_that_have_them():
    environment = {"PATH": "p", "BOTH": "b", "OF_STORES": "s", "HEADRACE_TYPO": "t", "HEADRACE_STORAGE": "s3"}
    every = {"BOTH", "OF_STORES", "OF_CONTROLLERS"}
    assert inherited(environment, {"BOTH", "OF_CONTROLLERS"}, every) == {
        "PATH": "p",
        "BOTH": "b",
        "HEADRACE_TYPO": "t",
    }
    assert inherited(environment, {"BOTH", "OF_STORES"}, every).keys() == {
        *("PATH", "BOTH", "OF_STORES", "HEADRACE_TYPO")
    }


def test_the_ready_file_has_what_is_ready_and_known():
    told = {
        "zookeeper": {"pid": 1},
        "controller-1": {"controller": "h:1", "rest": "h:2", "pid": 2, "tls": True},
        "store-1": {"segmentstore": "h:3", "rest": "h:4", "pid": 3},
        "store-2": {"segmentstore": "h:5", "rest": "h:6", "pid": 4},
    }
    assert ready_document("zk://h:9/r", told, {"h:3": "id", "h:7": "of somebody else"}) == {
        "coordinator": "zk://h:9/r",
        "controllers": ["h:1"],
        "rest": ["h:2"],
        "tls": True,
        "stores": [{"id": "id", "address": "h:3", "pid": 3}],
        "pids": {"zookeeper": 1, "controller-1": 2, "store-1": 3, "store-2": 4},
    }
