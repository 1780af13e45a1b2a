"""``headrace table`` against a real server."""

import json
import sys

import pytest

from headrace.cli.main import main
from headrace.testing import LocalServer

pytestmark = [pytest.mark.cluster, pytest.mark.slow]


@pytest.fixture(scope="module")
def uri(tmp_path_factory):
    with LocalServer(tmp_path_factory.mktemp("server"), "--in-memory") as server:
        assert main(["scope", "create", "demo", "--uri", server.uri]) == 0
        yield server.uri


@pytest.fixture
def run(uri, capfdbinary):
    """Run a command; returns its exit code, stdout and stderr."""

    def run(*words):
        code = main(["table", *words, "--uri", uri])
        sys.stdout.flush()
        captured = capfdbinary.readouterr()
        return code, captured.out.decode(), captured.err.decode()

    return run


def answer(result):
    code, out, err = result
    assert code == 0, err
    return json.loads(out)


def test_tables_are_created_described_listed_and_deleted(run):
    assert run("create", "demo/prices", "--primary", "5", "--secondary", "1", "--partitions", "3") == (
        0,
        "",
        "",
    )
    code, _, err = run("create", "demo/prices", "--primary", "5")
    assert (code, err) == (2, "headrace: key-value table demo/prices exists already\n")
    assert not answer(run("create", "demo/prices", "--primary", "5", "--if-absent", "--json"))["created"]
    assert run("list", "demo") == (0, "prices\n", "")
    assert answer(run("describe", "demo/prices", "--json")) == {
        "scope": "demo",
        "table": "prices",
        "partitions": 3,
        "primary_key_bytes": 5,
        "secondary_key_bytes": 1,
        "rollover_bytes": 0,
        "entries": 0,
    }
    assert "secondary key bytes  1\n" in run("describe", "demo/prices")[1]
    assert run("delete", "demo/prices")[0] == 2
    assert run("delete", "demo/prices", "--yes") == (0, "", "")
    assert run("delete", "demo/prices", "--yes")[0] == 2
    assert run("delete", "demo/prices", "--yes", "--if-exists") == (0, "", "")
    assert run("describe", "demo/prices")[0] == 2
    assert run("create", "demo/bad", "--primary", "0")[0] == 2


def test_entries_are_put_got_scanned_and_removed(run):
    assert run("create", "demo/stock", "--primary", "5", "--secondary", "1", "--partitions", "2")[0] == 0
    first = run("put", "demo/stock", "appleA", "12")[1].strip()
    assert run("get", "demo/stock", "appleA") == (0, "12\n", "")
    code, _, err = run("put", "demo/stock", "appleA", "13", "--if-absent")
    assert code == 2
    assert "nothing changed" in err
    second = answer(run("put", "demo/stock", "appleA", "13", "--version", first, "--json"))["version"]
    assert second != first
    assert run("put", "demo/stock", "appleA", "14", "--version", first)[0] == 2
    assert (
        run("put", "demo/stock", "appleB", "1")[0]
        == run("put", "demo/stock", "70656172730a", "x", "--hex")[0]
        == 0
    )
    assert run("scan", "demo/stock")[1] == "appleA\t13\nappleB\t1\npears\\n\tx\n"
    assert run("scan", "demo/stock", "--hex", "--keys", "--first", "70")[1] == "70656172730a\n"
    assert run("scan", "demo/stock", "--primary", "apple", "--first", "B")[1] == "appleB\t1\n"
    assert run("scan", "demo/stock", "--prefix", "ap", "--count", "1")[1] == "appleA\t13\n"
    assert answer(run("get", "demo/stock", "appleA", "--json")) == {
        "key": "appleA",
        "value": "13",
        "version": second,
    }
    code, out, err = run("get", "demo/stock", "appleA", "nokeyA")
    assert (code, out, err) == (2, "", "headrace: key-value table demo/stock has no nokeyA\n")
    assert run("remove", "demo/stock", "appleA", "--version", first)[0] == 2
    assert run("remove", "demo/stock", "appleA", "--version", second) == (0, "", "")
    assert run("remove", "demo/stock", "appleA") == (0, "", "")
    assert run("get", "demo/stock", "appleA")[0] == 2


@pytest.mark.parametrize(
    "words",
    [
        ("get", "demo/lines", "short"),
        ("get", "demo/lines", "toolong"),
        ("get", "demo/lines", "xyz", "--hex"),
        ("get", "demo/none", "appleA"),
        ("get", "demo", "appleA"),
        ("put", "demo/lines", "appleA", "1", "--version", "first"),
        ("remove", "demo/lines", "appleA", "--version", "1:-1"),
        ("scan", "demo/lines", "--prefix", "a", "--first", "a"),
        ("scan", "demo/lines", "--first", "b", "--last", "a"),
        ("scan", "demo/lines", "--count", "0"),
        ("list", "nowhere"),
    ],
)
def test_garbage_is_refused_on_one_line(run, words):
    assert run("create", "demo/lines", "--primary", "6", "--if-absent")[0] == 0
    code, out, err = run(*words)
    assert (code, out, err.count("\n")) == (2, "", 1)
