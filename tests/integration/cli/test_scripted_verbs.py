"""Verbs of scripts and curious people, against a real server: last events, lists, updates, waits, a bench."""

import io
import json
import sys
import threading
from datetime import date

import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq
import pytest

from headrace.cli.main import main
from headrace.client import blocking
from headrace.model.key_space import FULL_RANGE, split_evenly
from headrace.testing import LocalServer

pytestmark = [pytest.mark.cluster, pytest.mark.slow]


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with LocalServer(tmp_path_factory.mktemp("server"), "--in-memory") as server:
        yield server


@pytest.fixture
def run(server, capfdbinary):
    """Run a command; returns its exit code, stdout and stderr."""

    def run(*words, asks="--uri"):
        where = [asks, server.rest_url if asks == "--rest" else server.uri] if asks else []
        code = main([*words, *where])
        sys.stdout.flush()
        captured = capfdbinary.readouterr()
        return code, captured.out.decode(), captured.err.decode()

    return run


@pytest.fixture
def client(server):
    with blocking.connect(server.uri) as client:
        client.create_scope("demo")
        yield client


def answer(result):
    code, out, err = result
    assert code == 0, err
    return json.loads(out)


def write(client, stream, numbers, size=0):
    with client.event_writer("demo", stream) as writer:
        for number in numbers:
            writer.write(b"%06d" % number + bytes(size), str(number % 7))


@pytest.mark.parametrize(
    ("text", "kind", "minimum"),
    [
        ("7 days", "time", 604_800_000),
        ("12h", "time", 43_200_000),
        ("10 GiB", "size", 10 << 30),
        ("none", "none", 0),
    ],
)
def test_retention_is_said_in_the_words_of_python(run, client, text, kind, minimum):
    made, twin = f"demo/cli-{minimum}", f"demo/python-{minimum}"
    assert run("stream", "create", made, "--retention", text)[0] == 0
    client.create_stream(twin, retention=text)
    assert client.stream_configuration(made) == client.stream_configuration(twin)
    assert run("stream", "update", twin, "--retention", "3 days")[0] == 0
    assert run("stream", "update", twin, "--retention", text)[0] == 0
    found = answer(run("stream", "describe", twin, "--json"))["retention"]
    assert (found["kind"], found["minimum"]) == (kind, minimum)


@pytest.mark.parametrize("verb", ["create", "update"])
@pytest.mark.parametrize("words", [("--retention", "7"), ("--retention", "1h", "--retain-time", "2h")])
def test_a_retention_that_makes_no_sense_is_refused(run, client, verb, words):
    client.create_stream("demo/update")
    assert run("stream", verb, f"demo/{verb}", *words)[0] == 2
    assert not client.stream_exists("demo/create")
    assert client.stream_configuration("demo/update").retention.minimum == 0


def test_who_creates_a_stream_that_is_otherwise_is_told_both(run, client):
    assert run("stream", "create", "demo/otherwise", "--segments", "2") == (0, "", "")
    assert run("stream", "create", "demo/otherwise", "--if-absent") == (0, "", "")
    assert run("stream", "create", "demo/otherwise", "--if-absent", "-s", "2") == (0, "", "")
    code, out, err = run("stream", "create", "demo/otherwise", "--if-absent", "-s", "3", "--retention", "1h")
    assert (code, out) == (0, "")
    assert err == (
        "stream demo/otherwise exists already and stays as it is: fixed, 2 segments, retention everything; "
        "wanted was: fixed, 3 segments, retention 1 h; 'headrace stream update' changes it\n"
    )
    assert run("stream", "create", "demo/otherwise", "-s", "3")[0] == 2


def test_the_status_of_a_server_says_what_it_holds(server, run, client):
    client.create_scope("held")
    client.create_stream("held/one")
    before = answer(run("status", "--rest", server.rest_url, "--json"))
    assert before["ready"] is True
    client.create_stream("held/two")
    client.write("held/two", [b"12345678"])
    after = answer(run("status", "--rest", server.rest_url, "--json"))
    assert after["streams"] == before["streams"] + 1
    assert after["bytes"] == before["bytes"] + 16  # with the header of the event
    assert after["unstored_bytes"] >= 16  # this server stores nothing
    assert (after["not_ready"], after["waits"]) == ([], [])
    code, out, _ = run("status", "--rest", server.rest_url)
    assert (code, out.splitlines()[0]) == (0, "ready     yes")
    assert [line.split()[0] for line in out.splitlines()] == [
        "ready",
        "streams",
        "bytes",
        "unstored",
        "waits",
    ]


def last(run, stream, count):
    code, out, err = run("event", "read", f"demo/{stream}", "--last", str(count), "--format", r"%e\n")
    assert code == 0, err
    return sorted(int(line[:6]) for line in out.splitlines())


def test_the_last_events_are_read_over_scales_and_after_the_seal(run, client):
    client.create_stream("demo", "last")
    assert last(run, "last", 5) == []
    write(client, "last", range(3))
    client.scale_stream("demo", "last", [0], split_evenly(FULL_RANGE, 3))
    assert last(run, "last", 5) == [0, 1, 2]
    write(client, "last", range(1000, 3000), size=300)
    for count in (1, 10, 500):
        found = last(run, "last", count)
        assert len(found) == count
        assert min(found) >= 3000 - 7 * count - 7, (
            "each key goes to one segment, and each has some of the last"
        )
    assert last(run, "last", 2000) == list(range(1000, 3000))
    assert last(run, "last", 5000) == [0, 1, 2, *range(1000, 3000)]
    client.seal_stream("demo", "last")
    assert len(last(run, "last", 4)) == 4
    assert run("event", "read", "demo/last", "--last", "0")[0] == 2
    assert run("event", "read", "demo/last", "--last", "1", "--to", "head")[0] == 2
    code, _, err = run("event", "read", "demo/last", "--format", "%q")
    assert code == 2
    assert "known are %e" in err


def test_events_are_printed_as_a_format_says_and_those_that_follow_as_well(run, client):
    client.create_stream("demo", "followed")
    write(client, "followed", range(10))
    later = threading.Timer(
        0.3, lambda: (write(client, "followed", [10]), client.seal_stream("demo", "followed"))
    )
    later.start()
    code, out, _ = run("event", "read", "demo/followed", "--last", "2", "--follow", "--format", r"%s@%o=%e;")
    later.join()
    assert (code, out) == (0, "0#0@112=000008;0#0@126=000009;0#0@140=000010;")


def test_records_are_created_written_and_printed(run, client, tmp_path):
    said = ("stream", "create", "demo/records", "--records", "--segments", "2", "--tag", "shop")
    assert run(*said)[0] == 0
    assert "stays as it is" not in run(*said, "--if-absent")[2]
    assert "headrace.records=1" in run("stream", "describe", "demo/records")[1]
    code, _, err = run("stream", "update", "demo/records", "--untag", "headrace.records=1")
    assert code == 2
    assert "whether a stream has records is decided when it is created" in err
    with client.event_writer("demo/records") as writer:
        for number in (3, 1, 4, 2):
            writer.write(b"%d" % number, key=str(number), time=1000 * number, headers={"n": str(number)})
    code, out, err = run(
        "event", "read", "demo/records", "--last", "3", "--format", r"%t %k %h %e\n", "--position"
    )
    lines = [f"1970-01-01T00:00:0{number}.000Z {number} n={number} {number}" for number in (1, 2, 3, 4)]
    found = out.splitlines()
    assert code == 0
    assert len(found) in (3, 4)  # about as many of each segment
    assert found == [line for line in lines if line in found]
    assert run("event", "read", "demo/records", "--from", err.strip())[1] == ""
    printed = run("event", "read", "demo/records", "--json")[1]
    (tmp_path / "records.jsonl").write_text(printed)
    words = ("event", "write", "demo/copy", "--file", str(tmp_path / "records.jsonl"), "--input", "json")
    assert run("stream", "create", "demo/copy", "--records")[0] == 0
    assert run(*words)[0] == 0
    copied = run("event", "read", "demo/copy", "--format", r"%t %k %h %e\n")[1]
    assert set(copied.splitlines()) == set(lines)
    assert run("stream", "create", "demo/plain")[0] == 0
    code, _, err = run(
        "event", "write", "demo/plain", "--file", str(tmp_path / "records.jsonl"), "--input", "json"
    )
    assert code == 2
    assert "an event of demo/plain has no time and no headers" in err


def test_the_last_records_are_in_the_order_of_their_times_whatever_follows(run, client):
    client.create_stream("demo/late", records=True)
    for value, time_ms in (("a", 2000), ("b", 1000), ("c", 500)):
        client.write("demo/late", [value], time=time_ms)
    last = ("event", "read", "demo/late", "--last", "2", "--format", "%e;", "--follow")
    assert run(*last, "--limit", "2")[1] == "c;b;"
    assert run(*last, "--limit", "1")[1] == "c;"
    client.seal_stream("demo/late")
    assert run(*last, "--limit", "3")[1] == "c;b;"
    assert run(*last)[1] == "c;b;"
    assert run("event", "read", "demo/late", "--format", "%e;")[1] == "a;b;c;"


def read_bytes(capfdbinary, server, *words):
    assert main(["event", "read", *words, "--uri", server.uri]) == 0
    sys.stdout.flush()
    return capfdbinary.readouterr().out


def test_a_stream_is_a_table_of_csv_or_parquet(run, server, client, capfdbinary):
    client.create_stream("demo/rows", records=True)
    rows = [{"n": 1, "name": "Ada, B.", "tags": ["x", "y"]}, {"n": 2, "name": None}, {"n": 3, "name": "ü"}]
    client.write("demo/rows", rows, key="k", time=7, headers={"h": "1"}, serializer="json")
    text = read_bytes(capfdbinary, server, "demo/rows", "--as", "csv", "--limit", "2").decode()
    head, first, second = text.splitlines()
    assert head == '"n","name","tags","time","key","headers","segment_id","offset"'
    assert first.startswith('1,"Ada, B.","[""x"", ""y""]",1970-01-01 00:00:00.007Z,"k","{""h"": ""1""}",0,0')
    assert second.startswith("2,,")
    data = read_bytes(capfdbinary, server, "demo/rows", "--as", "parquet")
    assert pq.read_table(io.BytesIO(data))["name"].to_pylist() == ["Ada, B.", None, "ü"]
    for more in ("--json", "--follow", "--position"):
        assert run("event", "read", "demo/rows", "--as", "csv", more)[0] == 2


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_rows_of_a_file_become_events(run, client, tmp_path, form):
    table = pa.table({"customer": ["a", "b", "a"], "cents": [1, 2, None], "on": [date(2026, 1, 2)] * 3})
    file = tmp_path / "orders"
    (pc.write_csv if form == "csv" else pq.write_table)(table, file)
    client.create_stream(f"demo/{form}", records=True)
    words = ("event", "write", f"demo/{form}", "--input", form, "--file", str(file), "--key-field")
    assert answer(run(*words, "customer", "--json"))["events"] == 3
    assert [(event.data.decode(), event.key) for event in client.read(f"demo/{form}")] == [
        ('{"customer":"a","cents":1,"on":"2026-01-02"}', b"a"),
        ('{"customer":"b","cents":2,"on":"2026-01-02"}', b"b"),
        ('{"customer":"a","on":"2026-01-02"}', b"a"),
    ]
    code, _, err = run(*words, "cents")
    assert code == 2
    assert "row 3 has no value of 'cents': 2 events were written before" in err
    assert "no column 'x' among customer, cents, on: nothing was written" in run(*words, "x")[2]
    assert "nothing was written" in run(*words, "cents", "--atomic")[2]
    file.write_bytes(b"")
    assert f"is no {form} behind row 0" in run(*words, "cents")[2]
    assert run("event", "write", f"demo/{form}", "word", "--input", form)[0] == 2
    assert run(*words, "cents", "--on-error", "skip")[0] == 2


def test_lines_of_a_file_are_written_with_a_field_as_their_key(run, client, tmp_path):
    client.create_stream("demo", "keyed")
    file = tmp_path / "orders.jsonl"
    lines = [json.dumps({"customer": f"c{number % 3}", "n": number}) for number in range(6)]
    file.write_text("\n".join([*lines[:4], '{"n": 4}', *lines[5:]]))
    words = ("event", "write", "demo/keyed", "--file", str(file), "--key-field", "customer")
    code, _, err = run(*words)
    assert code == 2
    assert "line 5 has no field 'customer': 4 events were written before" in err
    assert "nothing was written" in run(*words, "--atomic")[2]
    assert run("event", "read", "demo/keyed")[1].splitlines() == lines[:4]
    assert answer(run(*words, "--on-error", "skip", "--json"))["events"] == 5
    assert run("event", "write", "demo/keyed", "word", "--file", str(file))[0] == 2
    assert run("event", "write", "demo/keyed", "--file", str(tmp_path / "missing"))[0] == 2
    assert run("event", "write", "demo/keyed", "{}", "--key-field", "n", "--input", "json")[0] == 2


def test_streams_are_listed_with_their_sizes_and_updated_where_something_was_given(run, client):
    client.create_scope("sizes")
    words = ("--segments", "2", "--tag", "old", "--tag", "kept", "--retain-time", "7d")
    assert run("stream", "create", "sizes/a", *words)[0] == 0
    assert run("stream", "create", "sizes/b")[0] == 0
    assert run("event", "write", "sizes/a", "12345678")[0] == 0
    client.seal_stream("sizes", "b")
    _, out, _ = run("stream", "list", "sizes")
    assert [line.split() for line in out.splitlines()] == [
        ["STREAM", "SEGMENTS", "BYTES", "STATE", "TAGS"],
        ["sizes/a", "2", "16", "open", "kept", "old"],
        ["sizes/b", "0", "0", "sealed", "-"],
    ]
    found = answer(run("stream", "list", "--tag", "kept", "--json"))
    assert [(each["scope"], each["stream"], each["bytes"]) for each in found] == [("sizes", "a", 16)]
    assert "sizes/b" in run("stream", "list", "--names")[1].splitlines()
    assert "sizes/b" in answer(run("stream", "list", "sizes", "--names", "--json"))

    changes = ("--tag", "new", "--untag", "old", "--kib-per-second", "5")
    assert answer(run("stream", "update", "sizes/a", *changes, "--json"))["updated"] is True
    described = answer(run("stream", "describe", "sizes/a", "--json"))
    assert described["tags"] == ["kept", "new"]
    assert (described["scaling"]["target_rate"], described["scaling"]["segments_min"]) == (5, 2)
    assert described["retention"]["minimum"] == 7 * 86_400_000
    assert answer(run("stream", "update", "sizes/a", *changes, "--json"))["updated"] is False
    assert run("stream", "update", "sizes/a")[0] == 2
    assert run("stream", "update", "sizes/none", "--fixed")[0] == 2


def test_a_script_waits_for_a_stream_and_hears_when_it_waits_in_vain(run, client):
    client.create_stream("demo", "awaited")
    waits = ("stream", "wait", "demo/awaited")
    later = threading.Timer(0.2, write, (client, "awaited", range(5)))
    later.start()
    assert answer(run(*waits, "--events", "5", "--json"))["events"] == 5
    later.join()
    assert run(*waits, "--bytes", "70")[0] == 0
    assert run(*waits, "--segments", "1")[0] == 0
    for words in (("--events", "6"), ("--bytes", "1KiB"), ("--segments", "2"), ("--sealed",)):
        code, _, err = run(*waits, *words, "--timeout", "0.1")  # of a second
        assert code == 4, err
        assert "waited in vain for" in err
    assert " events counted so far" in run(*waits, "--events", "6", "--timeout", "100ms")[2]
    client.seal_stream("demo", "awaited")
    assert run(*waits, "--sealed")[0] == 0
    for words in (("--events", "6"), ("--bytes", "1KiB"), ("--segments", "2")):
        assert run(*waits, *words)[0] == 2, "that will never be"
    assert run("stream", "wait", "demo/none", "--sealed")[0] == 2


def test_a_bench_measures_and_leaves_nothing_behind(run, client):
    words = ("--events", "2000", "--size", "100", "--seconds", "0.2", "--writers", "2", "-s", "2")
    found = answer(run("bench", *words, "--json"))
    rows = {each["load"]: each for each in found["loads"]}
    assert {name: row["events"] for name, row in rows.items()} == {
        "write": 2000,
        "read": 2000,
        "acknowledged": 200,
        "read at the tail": 200,
    }
    assert all(row["events_per_s"] > 0 for row in rows.values())
    assert rows["acknowledged"]["p50_ms"] <= rows["acknowledged"]["p99_ms"]
    code, out, _ = run("bench", "read", *words)
    assert code == 0
    assert [line.split()[0] for line in out.splitlines()] == ["LOAD", "read"]
    assert run("bench", "--scope", "demo", *words)[0] == 2
    code, _, err = run("bench", "latency", "--rate", "100000", "--size", "100KiB", "--seconds", "1")
    assert (code, "are taken: lower --rate" in err) == (4, True)
    assert not [scope for scope in client.list_scopes() if scope.startswith("bench-")]


def test_merging_is_shown_paused_and_resumed(run, server):
    verbs = ("storage", "optimiser")
    assert answer(run(*verbs, "pause", "--json", asks="--rest"))["paused"] is True
    assert answer(run(*verbs, "status", "--json", asks="--rest"))["paused"] is True
    assert "nothing is merged here" in run(*verbs, "resume", asks="--rest")[1]
    assert answer(run(*verbs, "status", "--json", asks="--rest"))["paused"] is False
