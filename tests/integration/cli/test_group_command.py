"""Reader groups on the command line."""

import json
import sys

import pytest

from headrace.cli.main import main
from headrace.client import blocking
from headrace.testing import LocalServer

pytestmark = [pytest.mark.cluster, pytest.mark.slow]


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with LocalServer(tmp_path_factory.mktemp("server"), "--in-memory") as server:
        yield server


@pytest.fixture
def run(server, capfdbinary):
    """Run a command; returns its exit code, stdout and stderr."""

    def run(*words):
        code = main([*words, "--uri", server.uri])
        sys.stdout.flush()
        captured = capfdbinary.readouterr()
        return code, captured.out.decode(), captured.err.decode()

    return run


def test_a_group_is_read_shown_set_back_and_deleted(server, run):
    with blocking.connect(server.uri) as client:
        client.create_scope("demo")
        client.create_stream("demo/orders", segments=2)
        client.write("demo/orders", [str(number) for number in range(20)], key=map(str, range(20)))
        assert run("group", "list", "--json") == (0, "[]\n", "")
        read = ["event", "read", "demo/orders", "--group", "etl", "--limit"]
        code, first, _ = run(*read, "12")
        assert (code, len(first.split())) == (0, 12)
        code, rest, _ = run(*read, "8")
        assert sorted(map(int, (first + rest).split())) == list(range(20)), "printed is handled"
        (listed,) = json.loads(run("group", "list", "demo", "--json")[1])
        assert listed == {
            "group": "demo/etl",
            "streams": ["demo/orders"],
            "readers": 0,
            "unread_bytes": 0,
            "age_s": 0.0,
        }
        code, out, _ = run("group", "reset", "demo/etl", "--to", "head", "--yes")
        assert (code, out.split()[0]) == (0, "demo/orders")
        code, out, _ = run("group", "list")
        titles, line = out.splitlines()
        assert titles.split() == ["GROUP", "STREAMS", "READERS", "UNREAD", "AGE"]
        assert line.split() == ["demo/etl", "1", "0", "190", "10", "s"]
        with client.reader_group(group="etl", scope="demo") as group, group.reader("worker"):
            shown = json.loads(run("group", "show", "demo/etl", "--json")[1])
            assert (shown["readers"], shown["unread_bytes"], shown["generation"]) == (["worker.py"], 190, 1)
            assert sum(each["unread_bytes"] for each in shown["segments"]) == 190
            code, out, _ = run("group", "show", "demo/etl")
            assert "checkpoints  every 30 s\n" in out
            assert "\nSEGMENT " in out
            cuts = json.loads(run("group", "checkpoint", "demo/etl", "--name", "now", "--json")[1])
            assert cuts == {"demo/orders": client.head_cut("demo/orders").as_text()}
            assert run("group", "offline", "demo/etl", "worker", "--yes")[0] == 0
            assert run("group", "offline", "demo/etl", "worker", "--yes")[0] == 2
        assert run("group", "delete", "demo/etl", "--yes")[0] == 0
        code, _, err = run("group", "delete", "demo/etl", "--yes")
        assert code == 2
        assert "demo/etl does not exist" in err
        assert run("group", "delete", "demo/etl", "--if-exists", "--yes")[0] == 0
        assert len(run(*read, "20")[1].split()) == 20, "another one of its name begins anew"


def test_a_group_that_waits_for_a_reader_says_for_which(server, run):
    with blocking.connect(server.uri) as client:
        client.create_scope("slow")
        client.create_stream("slow/orders")
        client.write("slow/orders", ["one", "two"])
        with client.reader_group("slow/orders", group="etl") as group, group.reader("busy") as reader:
            next(reader)
            code, _, err = run("group", "checkpoint", "slow/etl", "--timeout", "100ms")
    assert code == 4
    assert "not passed by busy.py" in err
