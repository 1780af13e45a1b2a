"""The commands against a real standalone server in a process of its own."""

import base64
import fcntl
import io
import itertools
import json
import os
import select
import signal
import socket
import subprocess
import sys
import termios
from array import array

import pytest

from headrace.cli.completion import names as name_completion
from headrace.cli.event import write as event_write
from headrace.cli.main import main
from headrace.model.stream_cut import StreamCut
from headrace.testing import LocalServer, ServerDiedError
from tests import programs

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

COMMAND = (sys.executable, "-c", "import sys; from headrace.cli.main import main; sys.exit(main())")


@pytest.fixture(scope="module")
def uri(tmp_path_factory):
    with LocalServer(tmp_path_factory.mktemp("server"), "--in-memory", command=COMMAND) as server:
        assert main(["scope", "create", "demo", "--uri", server.uri]) == 0
        yield server.uri


@pytest.fixture
def run(uri, capfdbinary):
    """Run a command; returns its exit code, stdout and stderr."""

    def run(*words):
        code = main([*words, "--uri", uri])
        sys.stdout.flush()
        captured = capfdbinary.readouterr()
        return code, captured.out.decode(), captured.err.decode()

    return run


def answer(result):
    code, out, err = result
    assert code == 0, err
    return json.loads(out)


def test_scopes_are_created_listed_and_deleted_once(run):
    assert run("scope", "create", "one") == (0, "", "")
    assert run("scope", "create", "one") == (2, "", "headrace: scope one exists already\n")
    assert answer(run("scope", "create", "one", "--if-absent", "--json")) == {
        "scope": "one",
        "created": False,
    }
    assert "one" in run("scope", "list")[1].splitlines()
    assert "one" in answer(run("scope", "list", "--json"))
    assert run("scope", "delete", "one")[0] == 2  # nobody can be asked
    assert answer(run("scope", "delete", "one", "--yes", "--json")) == {"scope": "one", "deleted": True}
    assert run("scope", "delete", "one", "--yes") == (2, "", "headrace: scope one does not exist\n")
    assert run("scope", "delete", "one", "--yes", "--if-exists") == (0, "", "")


def test_a_person_at_a_terminal_is_told_what_was_done(uri):
    def told(*words, given=None):
        terminal, at_terminal = os.openpty()
        with os.fdopen(terminal, "rb", buffering=0) as shown:
            done = programs.run(
                [*COMMAND, *words, "--uri", uri],
                input=given,
                stdout=subprocess.PIPE,
                stderr=at_terminal,
                timeout=120,
                check=True,
            )
            os.write(at_terminal, b".")  # so that there is something to read
            said = shown.read(10_000)
            os.close(at_terminal)
        assert done.stdout == b""
        return said.decode().removesuffix(".").splitlines()

    assert told("scope", "create", "told") == ["scope told created"]
    assert told("scope", "create", "told", "--if-absent") == ["scope told exists already"]
    assert told("stream", "create", "told/s", "--segments", "2") == ["stream told/s created with 2 segments"]
    assert told("stream", "create", "told/s", "-s", "2", "--if-absent") == ["stream told/s exists already"]
    assert told("table", "create", "told/t", "--primary", "1") == ["key-value table told/t created"]
    assert told("event", "write", "told/s", "one", "two", "three") == ["3 events written to told/s"]
    assert told("event", "write", "told/s", given=b"four\n") == ["1 event written to told/s"]


def test_a_scope_with_streams_is_deleted_only_recursively(run):
    refused = "headrace: scope 'full' does not exist: --create-scope creates it as well\n"
    assert run("stream", "create", "full/s") == (2, "", refused)
    assert run("stream", "create", "full/s", "--create-scope") == (0, "", "")
    assert run("scope", "delete", "full", "--yes")[0] == 2
    assert run("scope", "delete", "full", "--yes", "--recursive")[0] == 0
    assert "full" not in run("scope", "list")[1].splitlines()


def test_a_stream_is_described_as_it_was_created(run):
    code, _, err = run(
        *("stream", "create", "demo/described", "--segments", "2", "--events-per-second", "100"),
        *("--scale-factor", "3", "--retain-time", "7d", "--tag", "b", "--tag", "a"),
    )
    assert code == 0, err
    assert err == ""
    found = answer(run("stream", "describe", "demo/described", "--json"))
    assert found["scaling"] == {
        "kind": "events_per_second",
        "target_rate": 100,
        "scale_factor": 3,
        "segments_min": 2,
    }
    assert (found["retention"]["kind"], found["retention"]["minimum"]) == ("time", 7 * 86_400_000)
    assert found["tags"] == ["a", "b"]
    assert not found["sealed"]
    assert [(each["low"], each["high"], each["length"]) for each in found["segments"]] == [
        (0.0, 0.5, 0),
        (0.5, 1.0, 0),
    ]
    text = run("stream", "describe", "demo/described")[1]
    assert "retention  7 d\n" in text
    assert "tags       a, b\n" in text
    assert run("stream", "list", "demo", "--tag", "a", "--names")[1] == "demo/described\n"
    assert run("stream", "create", "demo/described")[0] == 2
    assert run("stream", "create", "demo/described", "--if-absent")[0] == 0
    assert run("stream", "create", "nowhere/s")[0] == 2


def test_events_are_read_as_they_were_written(run, monkeypatch):
    run("stream", "create", "demo/events")
    assert run("event", "write", "demo/events", "first", "zweites ü") == (0, "", "")
    lines = b"a line\nwith \xff bytes\r\n\nlast without end"
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(lines)))
    code, out, err = run("event", "write", "demo/events", "--key", "k", "--json")
    assert json.loads(out) == {
        "scope": "demo",
        "stream": "events",
        "events": 3,
        "bytes": 35,
        "skipped": 1,
        "refused": 0,
    }
    assert (code, err) == (0, "1 empty event was left out\n")
    code, out, _ = run("event", "read", "demo/events", "--json")
    events = [json.loads(line) for line in out.splitlines()]
    assert [each.get("event") for each in events] == [
        "first",
        "zweites ü",
        "a line",
        None,
        "last without end",
    ]
    assert events[3]["event_base64"] == "d2l0aCD/IGJ5dGVzDQ=="
    assert events[1]["offset"] == 8 + 5


def test_reading_goes_on_where_it_stopped(run):
    run("stream", "create", "demo/parts")
    run("event", "write", "demo/parts", *[f"e{n}" for n in range(10)], "--key", "k")
    code, out, err = run("event", "read", "demo/parts", "--count", "4", "--position")
    assert (code, out) == (0, "e0\ne1\ne2\ne3\n")
    cut = err.strip()
    assert run("event", "read", "demo/parts", "--from", cut)[1] == "".join(f"e{n}\n" for n in range(4, 10))
    assert run("event", "read", "demo/parts", "--to", cut)[1] == "e0\ne1\ne2\ne3\n"
    assert run("event", "read", "demo/parts", "--from", "tail")[1] == ""
    assert run("event", "read", "demo/parts", "--from", "no cut")[0] == 2
    assert run("event", "read", "demo/parts", "--count", "0")[0] == 2
    assert answer(run("stream", "truncate", "demo/parts", "--to", cut, "--yes", "--json"))["head"] == cut
    assert run("event", "read", "demo/parts")[1].startswith("e4\n")
    assert (
        run("stream", "truncate", "demo/described", "--to", cut, "--yes")[0] == 2
    )  # a cut of another stream
    assert run("stream", "truncate", "demo/parts", "--to", "tail", "--yes")[0] == 0
    assert run("event", "read", "demo/parts")[1] == ""


@pytest.fixture
def complete(uri, monkeypatch, capfdbinary):
    """Return what a shell proposes for the last of some words."""

    def complete(*words, uri=uri, patience_s=60.0):
        monkeypatch.setattr(name_completion, "_PATIENCE_S", patience_s)
        monkeypatch.setenv("HEADRACE_URI", uri)
        monkeypatch.setenv("_HEADRACE_COMPLETE", "bash_complete")
        monkeypatch.setenv("COMP_WORDS", " ".join(("headrace", *words)))
        monkeypatch.setenv("COMP_CWORD", str(len(words)))
        assert main([]) == 0
        monkeypatch.delenv("_HEADRACE_COMPLETE")
        out, err = capfdbinary.readouterr()
        assert err == b""
        return [line.partition(",")[2] for line in out.decode().split()]

    return complete


def test_a_shell_completes_what_the_server_has(run, uri, complete):
    run("stream", "create", "names/first", "--create-scope")
    run("stream", "create", "names/second")
    run("table", "create", "names/table", "--primary", "4")
    assert complete("str") == ["stream"]
    assert complete("stream", "de") == ["describe", "delete"]
    assert complete("event", "write", "names/first", "--on-error", "s") == ["stop", "skip"]
    assert complete("stream", "describe", "names/") == ["names/first", "names/second"]
    assert complete("stream", "describe", "--json", "na") == ["names/first", "names/second"]
    assert complete("table", "get", "names/t") == ["names/table"]
    assert complete("-c", uri, "scope", "delete", "na", uri="tcp://127.0.0.1:1") == ["names"]
    assert "_system" not in complete("scope", "delete", "")
    assert complete("scope", "delete", "_s") == ["_system"]
    assert complete("scope", "delete", "", uri="tcp://127.0.0.1:1") == []
    assert complete("scope", "delete", "", uri="no address") == []
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent_uri = f"tcp://127.0.0.1:{silent.getsockname()[1]}"
        assert complete("scope", "delete", "", uri=silent_uri, patience_s=0.1) == []


def test_log_lines_say_which_servers_are_asked(run, uri):
    run("stream", "create", "demo/logged")
    done = programs.run(
        [*COMMAND, "-vc", uri, "event", "write", "demo/logged", "-vv", "one"],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    assert done.stdout == ""
    assert f"controller={uri.removeprefix('tcp://')}" in done.stderr
    assert "connected  segment_store=" in done.stderr
    assert "DEBUG   headrace.client" in done.stderr


def test_a_key_may_stand_before_each_event(run, monkeypatch):
    run("stream", "create", "demo/keyed", "--segments", "4")
    lines = b"".join(b"k%d:%d:x\n" % (n % 7, n) for n in range(200))
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(lines)))
    assert run("event", "write", "demo/keyed", "--key-separator", ":")[0] == 0
    numbers = [int(line.partition(":")[0]) for line in run("event", "read", "demo/keyed")[1].splitlines()]
    assert sorted(numbers) == list(range(200))
    for key in range(7):
        of_key = [number for number in numbers if number % 7 == key]
        assert of_key == sorted(of_key)
    code, _, err = run("event", "write", "demo/keyed", "no separator", "--key-separator", ":")
    assert (code, err) == (2, "headrace: event 1 has no ':' in it: nothing was written\n")


NUMBERS = itertools.count()
ARGUMENTS = ("a:1", "nokey", "b:2")
BAD_LINES = b"a:1\nb:2\nnokey\n\nc:3\nnone\n"


@pytest.mark.parametrize(
    ("options", "given", "stored", "code", "words"),
    [
        ((), BAD_LINES, ["1", "2"], 2, "line 3 has no ':' in it: 2 events were written before; --atomic"),
        ((), b"nokey\na:1\n", [], 2, "line 1 has no ':' in it: nothing was written"),
        (("--atomic",), BAD_LINES, [], 2, "line 3 has no ':' in it: nothing was written"),
        (("--atomic",), b"a:1\nb:2\n", ["1", "2"], 0, ""),
        (("--on-error", "skip"), BAD_LINES, ["1", "2", "3"], 0, "left out: line 6 has no ':' in it"),
        (("--atomic", "--on-error", "skip"), BAD_LINES, ["1", "2", "3"], 0, "left out: line 3 has no"),
        (ARGUMENTS, b"", [], 2, "event 2 has no ':' in it: nothing was written"),
    ],
)
def test_a_line_that_is_no_event_is_named_with_what_was_written(
    run, monkeypatch, options, given, stored, code, words
):
    stream = f"demo/bad{next(NUMBERS)}"
    run("stream", "create", stream)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(given)))
    events, options = (options, ()) if options == ARGUMENTS else ((), options)
    found, out, err = run("event", "write", stream, *events, "--key-separator", ":", *options)
    assert (found, out) == (code, "")
    assert words in err
    assert sorted(run("event", "read", stream)[1].splitlines()) == stored


def test_lines_that_were_left_out_are_counted(run, monkeypatch):
    run("stream", "create", "demo/leftout")
    lines = b"nokey\n" * 25 + b"a:1\n"
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(lines)))
    code, out, err = run(
        "event", "write", "demo/leftout", "--key-separator", ":", "--on-error", "skip", "--json"
    )
    assert (code, json.loads(out)["refused"], json.loads(out)["events"]) == (0, 25, 1)
    assert err.splitlines()[-1] == "25 were left out in all"
    assert len(err.splitlines()) == 11


def test_every_byte_that_is_read_as_json_can_be_written_back(run, monkeypatch):
    events = [b"text", "ü€😀".encode(), b"\xff\xfe", b"a\nb\r\n", b"\r", b"\x00", bytes(range(256))]
    run("stream", "create", "demo/original")
    lines = b"".join(
        json.dumps({"event_base64": base64.b64encode(event).decode(), "key": "k"}).encode() + b"\n"
        for event in events
    )
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(lines)))
    assert run("event", "write", "demo/original", "--input", "json") == (0, "", "")
    printed = run("event", "read", "demo/original", "--json")[1]
    run("stream", "create", "demo/copied")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(printed.encode())))
    assert run("event", "write", "demo/copied", "--input", "json") == (0, "", "")
    assert run("event", "read", "demo/copied", "--json")[1] == printed


def test_bytes_of_arguments_and_lines_pass_unchanged(run, uri):
    run("stream", "create", "demo/raw")
    events = [b"\xff\xfe", "ü".encode(), b"line\r"]
    write, options = [*COMMAND, "event", "write", "demo/raw"], ["--uri", uri, "--key", "k"]
    programs.run([*write, *events, *options], check=True, timeout=120)
    programs.run(
        [*write, *options], input=b"".join(event + b"\n" for event in events), check=True, timeout=120
    )
    read = programs.run(
        [*COMMAND, "event", "read", "demo/raw", "--uri", uri], stdout=subprocess.PIPE, check=True, timeout=120
    )
    assert read.stdout == b"".join(event + b"\n" for event in 2 * events)


def test_a_key_is_the_same_in_every_locale(run, uri):
    run("stream", "create", "demo/locales", "--segments", "8")
    write = [*COMMAND, "event", "write", "demo/locales", "x", "--uri", uri, "--key", "schlüssel"]
    for locale in ({"LC_ALL": "C.UTF-8"}, {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}):
        programs.run(write, check=True, env={**os.environ, **locale}, timeout=120)
    events = [json.loads(line) for line in run("event", "read", "demo/locales", "--json")[1].splitlines()]
    assert [each["segment"] for each in events] == 2 * [events[0]["segment"]]


def test_a_line_beyond_the_bound_is_left_out_whole(run, monkeypatch):
    monkeypatch.setattr(event_write, "LINE_BYTES_MAX", 100)
    run("stream", "create", "demo/longline")
    lines = b"before\n" + b"x" * 1000 + b"\n" + b"y" * 100 + b"\n" + b"z" * 101
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(lines)))
    code, _, err = run("event", "write", "demo/longline", "--key", "k", "--on-error", "skip")
    assert code == 0
    assert err.splitlines() == [
        "left out: line 2 is longer than 100 bytes",
        "left out: line 4 is longer than 100 bytes",
    ]
    assert run("event", "read", "demo/longline")[1].splitlines() == ["before", "y" * 100]


def test_a_stream_that_cannot_be_leaves_no_scope_behind(run):
    for words in (
        ("neverscope/a_b",),
        ("neverscope/s", "--segments", "100000"),
        ("neverscope/s", "--tag", ""),
    ):
        assert run("stream", "create", *words, "--create-scope")[0] == 2
    assert "neverscope" not in run("scope", "list")[1].splitlines()


def test_a_stream_is_split_and_merged(run):
    run("stream", "create", "demo/scaled")
    split = answer(run("stream", "scale", "demo/scaled", "--split", "0", "--into", "3", "--json"))
    assert split["sealed"] == [0]
    ids = [each["id"] for each in split["segments"]]
    texts = [each["id_text"] for each in split["segments"]]
    assert (split["sealed_text"], texts) == (["0#0"], ["1#1", "2#1", "3#1"])
    assert run("stream", "scale", "demo/scaled", "--merge", str(ids[0]), str(ids[2]))[0] == 2  # no neighbours
    assert run("stream", "scale", "demo/scaled", "--merge", str(ids[0]))[0] == 2
    assert run("stream", "scale", "demo/scaled", "--split", "0") == (
        2,
        "",
        "headrace: segment 0#0 takes no events now; those of demo/scaled are 1#1, 2#1, 3#1\n",
    )
    assert run("stream", "scale", "demo/scaled", "--split", str(ids[0]), "--into", "1")[0] == 2
    merged = answer(run("stream", "scale", "demo/scaled", "--merge", "2#1", str(ids[0]), "--json"))
    assert len(merged["segments"]) == 1
    assert run("stream", "scale", "demo/scaled", "--segments", "0")[0] == 2
    code, out, _ = run("stream", "scale", "demo/scaled", "--segments", "4")
    assert (code, len(out.splitlines())) == (0, 5)


def test_a_stream_is_sealed_before_it_is_deleted(run):
    run("stream", "create", "demo/ended")
    assert run("stream", "delete", "demo/ended", "--yes")[0] == 2
    assert answer(run("stream", "seal", "demo/ended", "--yes", "--json"))["sealed"]
    assert run("event", "write", "demo/ended", "x")[0] == 2
    assert answer(run("stream", "describe", "demo/ended", "--json"))["segments"] == []
    assert answer(run("stream", "delete", "demo/ended", "--yes", "--json"))["deleted"]
    assert run("stream", "delete", "demo/ended", "--yes", "--seal")[0] == 2
    assert run("stream", "delete", "demo/ended", "--yes", "--seal", "--if-exists")[0] == 0
    run("stream", "create", "demo/ended")
    assert run("stream", "delete", "demo/ended", "--yes", "--seal")[0] == 0


def test_what_a_stream_refuses_is_a_wrong_request_with_its_reason(run):
    run("stream", "create", "demo/refusing", "--segments", "1")
    run("event", "write", "demo/refusing", "x")
    beyond = StreamCut.from_offsets("demo", "refusing", {0: 1000}).as_text()
    code, _, err = run("stream", "truncate", "demo/refusing", "--to", beyond, "--yes")
    assert (code, "1000" in err) == (2, True)
    run("stream", "seal", "demo/refusing", "--yes")
    code, _, err = run("stream", "scale", "demo/refusing", "--segments", "2")
    assert (code, "is sealed" in err) == (2, True)
    code, _, err = run("stream", "truncate", "demo/refusing", "--to", beyond, "--yes")
    assert (code, "1000" in err) == (2, True)


def test_numbers_that_no_stream_can_have_are_refused_before_anything_is_done(run):
    for options in (
        ("--segments", "10001"),
        ("--events-per-second", "5", "--scale-factor", "0"),
        ("--scale-factor", "2"),
    ):
        assert run("stream", "create", "demo/impossible", *options)[0] == 2
    assert run("stream", "describe", "demo/impossible")[0] == 2
    run("stream", "create", "demo/possible")
    for number in ("0", "10001", str(10**12)):
        assert run("stream", "scale", "demo/possible", "--segments", number)[0] == 2
        assert run("stream", "scale", "demo/possible", "--split", "0", "--into", number)[0] == 2


@pytest.mark.parametrize(("stream", "more"), [("demo/followed", ()), ("demo/counted", ("--count", "3"))])
def test_a_follower_reads_until_the_stream_is_sealed(run, uri, stream, more):
    run("stream", "create", stream)
    run("event", "write", stream, "before")
    command = [*COMMAND, "event", "read", stream, "--follow", *more, "--uri", uri]
    follower = programs.Popen(command, stdout=subprocess.PIPE)
    assert follower.stdout.readline() == b"before\n"
    run("event", "write", stream, "after")
    assert follower.stdout.readline() == b"after\n"  # at once, not when it ends
    run("stream", "seal", stream, "--yes")
    assert follower.communicate(timeout=120)[0] == b""
    assert follower.returncode == 0


def wait_until_full(pipe):
    """Wait until a process cannot write any more: it has output left that nobody takes."""
    waiting = array("i", [0])
    seen = -1
    while not waiting[0] or waiting[0] != seen:
        seen = waiting[0]
        select.select([], [], [], 0.2)  # nothing tells that a pipe is full but that it stays so
        fcntl.ioctl(pipe, termios.FIONREAD, waiting)


def test_a_reader_that_leaves_or_an_interrupt_ends_a_read_quietly(run, uri):
    run("stream", "create", "demo/left")
    run("event", "write", "demo/left", *["x" * 1000] * 1000)
    command = [*COMMAND, "event", "read", "demo/left", "--follow", "--uri", uri]
    for leave in (lambda reader: reader.stdout.close(), lambda reader: reader.send_signal(signal.SIGINT)):
        reader = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        assert reader.stdout.readline() == b"x" * 1000 + b"\n"
        wait_until_full(reader.stdout)
        leave(reader)
        assert reader.stderr.read() == b""
        assert reader.wait(120) in {1, 130}


@pytest.mark.timeout(120)  # the client's own patience is longer
def test_a_server_that_is_not_there_is_named_soon(capsys):
    assert main(["scope", "list", "--uri", "tcp://127.0.0.1:1"]) == 3
    assert capsys.readouterr().err.startswith("headrace: tcp://127.0.0.1:1: ")


def test_events_survive_a_kill_and_a_directory_serves_one(tmp_path, capfd):
    with LocalServer(tmp_path, "--containers", "2", command=COMMAND) as server:
        assert main(["stream", "create", "demo/kept", "--create-scope", "--uri", server.uri]) == 0
        assert main(["event", "write", "demo/kept", "survives", "--uri", server.uri]) == 0
        second = LocalServer(tmp_path, "--containers", "2", command=COMMAND)
        with pytest.raises(ServerDiedError, match=f"in use by pid {server.process.pid}"):
            second.start()
        assert second.process.returncode > 0
        server.restart()
        capfd.readouterr()
        assert main(["event", "read", "demo/kept", "--uri", server.uri]) == 0
        assert capfd.readouterr().out == "survives\n"
        assert server.stop() == 0
        assert not (tmp_path / "ready-2.json").exists()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--containers", "0"), "containers"),
        (("--config", "/nonexistent.toml"), "/nonexistent.toml"),
        (("--config", "typo.toml"), "controller_prt"),
        (("--config", "tiny.toml"), "cache_bytes"),
        (("--rest-port", "65536"), "rest_port"),
    ],
)
def test_a_wrong_setting_is_named(options, words, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "typo.toml").write_text("controller_prt = 1\n")
    (tmp_path / "tiny.toml").write_text('cache_bytes = "1 MiB"\n')
    assert main(["standalone", "--in-memory", *options]) == 2
    assert words in capsys.readouterr().err.splitlines()[-1]


def test_a_variable_that_is_no_setting_is_named_with_the_one_that_is(monkeypatch, capsys):
    monkeypatch.setenv("HEADRACE_URI", "tcp://localhost:1")  # of the other commands
    monkeypatch.setenv("HEADRACE_CONTROLER_PORT", "1")
    assert main(["standalone", "--in-memory"]) == 2
    error = capsys.readouterr().err
    assert "HEADRACE_CONTROLER_PORT in the environment is no setting" in error
    assert "known are HEADRACE_CONTROLLER_PORT" in error
