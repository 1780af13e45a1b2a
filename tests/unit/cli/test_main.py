import inspect
import os
import shlex
import subprocess
import sys
from contextlib import nullcontext

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace import errors
from headrace.cli import main as entry
from headrace.cli.nouns import ROOT
from headrace.cli.servers import Connection, confirm, scoped
from headrace.cli.shared_options import CONNECTION
from headrace.cli.verbs import Later, Verb
from headrace.runtime import logs
from tests import effort, programs

CONTEXT = click.Context(ROOT, info_name="headrace", **ROOT.context_settings)
VERBS = dict(ROOT.walk(CONTEXT))
"""Every command that can be run, by its words."""


def examples():
    """Yield every complete command line that help shows."""
    for text in [ROOT.epilog, *(verb.epilog for verb in VERBS.values())]:
        for line in text.partition("Example:\n")[2].splitlines():
            yield line.strip()


def options_of(path):
    return {name for parameter in VERBS[path].params for name in parameter.opts}


def parse(words):
    """Return what the function of a verb is given for a command line."""
    given = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Later, "__call__", lambda _, **chosen: given.append(chosen))
        assert entry.main(words) == 0
    return given[0]


def run_failing(monkeypatch, error, uri=None):
    def fail(**_):
        raise error

    verb = Verb("fail", fail, "Fail.", "headrace fail", *(CONNECTION if uri else ()))
    monkeypatch.setitem(ROOT.commands, "fail", verb)
    return entry.main(["fail", *(["--uri", uri] if uri else [])])


def test_every_verb_is_there():
    assert {" ".join(path) for path in VERBS} == {
        "standalone",
        "segmentstore",
        "status",
        "demo",
        "completion",
        *(f"scope {verb}" for verb in ("list", "create", "delete")),
        *(
            f"stream {verb}"
            for verb in (
                *("list", "create", "describe", "cut", "wait", "update", "scale", "truncate", "purge"),
                *("seal", "delete"),
            )
        ),
        *(f"event {verb}" for verb in ("write", "read")),
        *(f"group {verb}" for verb in ("list", "show", "checkpoint", "reset", "offline", "delete")),
        *(
            f"table {verb}"
            for verb in ("list", "create", "describe", "delete", "get", "put", "remove", "scan")
        ),
        *(f"user {verb}" for verb in ("add", "list", "remove")),
        *(
            f"inspect {noun}"
            for noun in ("wal", "frames", "operations", "container", "segment", "tree", "cache")
        ),
        "check container",
        "log copy",
        "storage check",
        "storage export",
        "storage import",
        "storage rebuild",
        "storage repair",
        "storage copy",
        *(f"storage optimiser {verb}" for verb in ("status", "pause", "resume")),
        "context add",
        "context list",
        "context remove",
        "context use",
        "config show",
        "config check",
        "bench",
        "controller",
        "controller failed-events",
        "cluster drain",
        "cluster finalize",
        "cluster init",
        "cluster local",
        "cluster status",
    }


@pytest.mark.slow
@pytest.mark.parametrize("line", list(examples()))
def test_every_example_is_a_legal_command_line(line):
    line = line.partition('"$(')[2].rpartition(')"')[0] or line
    words = shlex.split(line.rpartition("|")[2].partition("<")[0].partition(">")[0])
    assert words[0] == "headrace"
    parse(words[1:])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("path", "verb"),
    list(VERBS.items()),
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_help_ends_with_examples_and_fits_on_a_screen(path, verb):
    context = click.Context(verb, parent=CONTEXT, info_name=" ".join(path), terminal_width=100)
    text = verb.get_help(context)
    assert f"headrace {' '.join(path)}" in text.partition("Example:\n")[2]
    assert len(text.splitlines()) <= 45
    assert all(len(line) <= 100 for line in text.splitlines())
    assert all(parameter.help or parameter.metavar for parameter in verb.params)


@pytest.mark.slow
@pytest.mark.parametrize("path", VERBS)
def test_what_is_given_is_what_the_function_of_the_verb_takes(path):
    verb = VERBS[path]
    given = {parameter.name for parameter in verb.params} - {"verbose", "tls_ca", "uri"}
    given |= {"connection"} if "--uri" in options_of(path) else set()
    inspect.signature(verb.callback.load()).bind(**dict.fromkeys(given))


OFFLINE = {
    *("standalone", "segmentstore", "demo", "completion", "controller", "user", "inspect", "check"),
    *("storage", "config", "context", "cluster", "log"),
}


@pytest.mark.parametrize("path", [path for path in VERBS if path[0] not in OFFLINE])
def test_every_verb_that_asks_a_server_takes_its_uri_and_answers_in_json(path):
    assert "--json" in options_of(path)
    assert options_of(path) & {"--uri", "--rest"}


@pytest.mark.parametrize("path", [path for path in VERBS if path[0] in {"inspect", "check"}])
def test_every_verb_that_looks_into_data_answers_in_json(path):
    assert "--json" in options_of(path)


LETTERS = {
    "-c": "--uri",
    "-d": "--data-dir",
    "-f": "--follow",
    "-j": "--json",
    "-k": "--key",
    "-n": "--limit",
    "-s": "--segments",
    "-t": "--tag",
    "-v": "--verbose",
    "-y": "--yes",
}


@pytest.mark.parametrize("path", VERBS)
def test_a_letter_means_the_same_everywhere_and_no_word_is_without_its_letter(path):
    for parameter in VERBS[path].params:
        for letter, meant in LETTERS.items():
            names = {meant} if isinstance(meant, str) else meant
            assert (letter in parameter.opts) == bool(names & set(parameter.opts))


# ------------------------------------------------------------------------------------------ words


WRITE = {
    "stream": "s/t",
    "events": ("a", "b"),
    "key": "k",
    "connection": Connection("tcp://h:1"),
    "as_json": True,
}


@pytest.mark.parametrize(
    "line",
    [
        "event write s/t a b --key k --uri tcp://h:1 --json",
        "event write --key k s/t --json a --controller tcp://h:1 b",
        "event write s/t --key=k a -jc tcp://h:1 b",
        "--uri tcp://h:1 event --json write -k k s/t a b",
        "-jctcp://h:1 event write -kk s/t a -- b",
        "event --controller=tcp://h:1 -j write s/t a --key k b",
    ],
)
def test_options_stand_anywhere(line):
    given = parse(line.split())
    assert {name: given[name] for name in WRITE} == WRITE


OF_SERVERS = (["-j"], ["--uri", "tcp://h:1"], ["--tls-ca=ca.pem"])
FILLED = {"stream", "events", "connection", "as_json", "key", "on_error", "atomic"}
OF_WRITE = (["--key=k"], ["--on-error", "skip"], ["--atomic"])


@given(st.lists(st.integers(0, 5), min_size=6, max_size=6), st.permutations(range(6)))
def test_wherever_options_stand_the_same_is_done(places, order):
    """Those of servers in front of any word, those of the verb behind it."""
    parts = [["event"], ["write"], ["s/t"], ["a"], ["b"], []]
    options = [*OF_SERVERS, *OF_WRITE]
    for number in order:
        least = 0 if number < len(OF_SERVERS) else 2
        parts[max(places[number], least)] = options[number] + parts[max(places[number], least)]
    given = parse([word for part in parts for word in part])
    assert given == {
        "stream": "s/t",
        "events": ("a", "b"),
        "connection": Connection("tcp://h:1", "ca.pem"),
        "as_json": True,
        "key": "k",
        "on_error": "skip",
        "atomic": True,
        **{name: given[name] for name in given.keys() - FILLED},
    }


@pytest.mark.parametrize(
    ("line", "level"),
    [
        ("-v scope list", "info"),
        ("scope -v list -v", "debug"),
        ("scope list -vv", "debug"),
        ("-jvv scope list", "debug"),
    ],
)
def test_log_lines_are_shown_as_often_as_they_are_asked_for(monkeypatch, line, level):
    shown = []
    monkeypatch.setattr(logs, "shown", lambda *, level: shown.append(level) or nullcontext())
    parse(line.split())
    assert shown == [level]


def test_the_environment_names_the_controller_and_an_option_wins(monkeypatch):
    assert parse(["scope", "list"])["connection"].uri == "tcp://localhost:9090"
    monkeypatch.setenv("HEADRACE_URI", "tcp://env:1")
    assert parse(["scope", "list"])["connection"].uri == "tcp://env:1"
    assert parse(["-c", "tcp://given:1", "scope", "list"])["connection"].uri == "tcp://given:1"


def test_grpc_is_told_to_be_silent_before_a_verb_can_import_it(monkeypatch):
    monkeypatch.delenv("GRPC_VERBOSITY", raising=False)
    told = []
    monkeypatch.setattr(Later, "load", lambda _: told.append(os.environ.get("GRPC_VERBOSITY")) or dict)
    for words in (["bench"], ["stream", "wait", "s/t", "--sealed"], ["event", "read", "s/t"]):
        assert entry.main(words) == 0
        os.environ.pop("GRPC_VERBOSITY", None)
    assert told == ["NONE"] * 3


def test_what_begins_with_a_minus_stands_behind_two(capsys):
    given = parse(["table", "put", "s/t", "--hex", "--", "key", "-5"])
    assert (given["key"], given["value"], given["is_hex"]) == ("key", "-5", True)
    assert parse(["event", "write", "s/t", "--key", "-7", "--", "--json"])["events"] == ("--json",)
    assert entry.main(["table", "put", "s/t", "key", "-5"]) == 2
    assert "behind '--'" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [
        ("s/t", "--merge", "1#1", "4294967298"),
        ("--merge", "1#1", "2#1", "s/t"),
        ("--merge", "4294967297", "--json", "--merge", "2#1", "s/t"),
        ("--merge=1#1", "--merge", "2#1", "s/t", "--into", "2"),
        ("--merge=1#1", "2#1", "s/t"),
    ],
)
def test_an_option_takes_the_segments_that_follow(words):
    given = parse(["stream", "scale", *words])
    assert (given["stream"], given["merge"]) == ("s/t", (1 << 32 | 1, 1 << 32 | 2))


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("scop list", "No such command 'scop'. Did you mean 'scope'?"),
        ("scope lst", "No such command 'lst'. Did you mean 'list'?"),
        ("scope list --jsn", "No such option '--jsn'. Did you mean '--json'?"),
        ("event --key k write s/t x", "No such option '--key'. Options of a verb stand behind it."),
        ("--vers", "No such option '--vers'. Did you mean '--version'?"),
        ("create scope demo", "Did you mean 'headrace scope create'?"),
        ("list streams demo", "Did you mean 'headrace stream list'?"),
        ("scope create", "Missing argument 'SCOPE'."),
        ("scope list demo", "Got unexpected extra argument (demo)"),
        ("scope list --rest here:1", "No such option '--rest'"),
        ("stream create s/t --segments many", "Invalid value for '-s' / '--segments': 'many' is not"),
        ("stream create s/t --retain-time 1d --retain-size 1MiB", "--retain-time and --retain-size exclude"),
        ("stream scale s/t", "One of --segments, --split, --merge is needed."),
        ("stream scale s/t --split 1#x", "'1#x' is no segment"),
        ("event read s/t --from", "Option '--from' requires an argument."),
        ("storage copy --storage file:///x", "Missing option '--to'."),
    ],
)
def test_wrong_words_are_answered_with_the_usage_and_a_hint(line, words, capsys):
    assert entry.main(line.split()) == 2
    captured = capsys.readouterr()
    usage, error, hint = captured.err.splitlines()
    assert captured.out == ""
    assert usage.startswith("Usage: headrace ")
    assert error.startswith("headrace: ")
    assert words in error
    assert hint.startswith("Try 'headrace")


@pytest.mark.parametrize("words", [(), ("--help",), ("-h",), ("help",)])
def test_the_command_alone_prints_what_there_is(words, capsys):
    assert entry.main(words) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    assert all(f"\n  {noun} " in captured.out for noun in ROOT.list_commands(CONTEXT))


@pytest.mark.parametrize("words", [("scope",), ("-j", "scope"), ("scope", "--json")])
def test_a_noun_alone_is_a_wrong_request_and_prints_its_verbs(words, capsys):
    assert entry.main(words) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert [line.split()[0] for line in captured.err.splitlines()[-3:]] == ["list", "create", "delete"]


def test_help_is_asked_for_in_front_or_behind(capsys):
    texts = []
    for words in (("help", "scope", "list"), ("scope", "list", "-h"), ("--json", "scope", "list", "--help")):
        assert entry.main(words) == 0
        texts.append(capsys.readouterr().out)
    assert texts[0].startswith("Usage: headrace scope list ")
    assert texts == [texts[0]] * 3


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_is_told_how_to_ask(shell, capsys):
    assert entry.main(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert f"_HEADRACE_COMPLETE={shell}_complete" in script
    assert "_headrace_completion" in script


def test_the_version_is_that_of_the_package(capsys):
    assert entry.main(["--version"]) == 0
    assert capsys.readouterr().out == "headrace 0.1.0\n"


# ------------------------------------------------------------------------------------------ outcomes


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.NoSuchScopeError("x"), 2),
        (errors.WrongHostError("x"), 3),
        (errors.UnreachableError("x"), 3),
        (errors.ThrottledError("x"), 4),
        (errors.ConnectionLostError("x"), 5),
        (errors.DataCorruptionError("x"), 6),
        (errors.HeadraceError("x"), 1),
        (OSError(98, "address already in use"), 1),
        (BrokenPipeError(32, "nobody reads"), 1),
        (KeyboardInterrupt(), 130),
    ],
)
def test_the_exit_code_says_which_family_an_error_is_of(monkeypatch, error, code, capsys):
    assert run_failing(monkeypatch, error) == code
    captured = capsys.readouterr()
    assert captured.out == ""
    if isinstance(error, BrokenPipeError | KeyboardInterrupt):
        assert captured.err == ""
    else:
        assert captured.err.startswith("headrace: ")
        assert captured.err.count("\n") == 1


def test_an_error_of_many_lines_becomes_one(monkeypatch, capsys):
    run_failing(monkeypatch, errors.InvalidArgumentError("first\n  second\n"))
    assert capsys.readouterr().err == "headrace: first second\n"


def test_an_error_without_words_says_its_name(monkeypatch, capsys):
    run_failing(monkeypatch, errors.ThrottledError())
    assert capsys.readouterr().err == "headrace: ThrottledError\n"


@pytest.mark.parametrize("kind", [errors.ConnectionLostError, errors.UnreachableError])
def test_a_server_that_does_not_answer_is_named(monkeypatch, capsys, kind):
    run_failing(monkeypatch, kind("refused"), "tcp://nowhere:9")
    assert capsys.readouterr().err == "headrace: tcp://nowhere:9: refused\n"


def test_a_bug_is_shown_as_what_it_is(monkeypatch):
    with pytest.raises(ZeroDivisionError):
        run_failing(monkeypatch, ZeroDivisionError())


@pytest.mark.cluster
@pytest.mark.parametrize(
    ("closed", "words", "code"),
    [
        (">&-", ("check", "container"), 0),
        ("2>&-", ("inspect", "wal", "--container", "7"), 2),
        ("<&-", ("scope", "delete", "demo"), 2),
    ],
)
def test_a_stream_that_was_closed_takes_nothing_and_changes_no_answer(tmp_path, closed, words, code):
    (tmp_path / "headrace.json").write_text('{"format": 1, "containers": 1}')
    done = subprocess.run(
        ["sh", "-c", f'exec "$@" {closed}', "sh", sys.executable, "-m", "headrace.cli.main", *words],
        env={**os.environ, "HEADRACE_DATA_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == code
    assert done.stdout == ""
    assert "Traceback" not in done.stderr


@pytest.mark.slow
@pytest.mark.cluster
def test_threads_of_a_library_change_no_exit_code(tmp_path):
    """Without care more than half of these processes abort."""
    uri, words = "s3://bucket/prefix?endpoint=http://127.0.0.1:1", ("storage", "copy", "--from")
    for _ in range(effort.examples(8)):
        done = programs.run(
            [sys.executable, "-m", "headrace.cli.main", *words, uri, "--to", f"file://{tmp_path}/copy"],
            env={**os.environ, "AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret"},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == errors.EXIT_CODES[errors.UnknownOutcomeError]
        assert "127.0.0.1:1" in done.stderr


def test_a_store_that_does_not_answer_is_no_file_and_no_server(monkeypatch, capsys):
    error = OSError(5, "as files say it")
    error.__cause__ = errors.StorageReadError("there is no bucket 'b'")
    assert run_failing(monkeypatch, error) == 5
    assert run_failing(monkeypatch, errors.StorageReadError("there is no bucket 'b'"), "tcp://here:1") == 5
    assert capsys.readouterr().err == "headrace: there is no bucket 'b'\n" * 2


@pytest.mark.parametrize("name", ["", "demo", "/orders", "demo/", "a/b/c"])
def test_a_stream_is_named_with_its_scope(name):
    with pytest.raises(errors.InvalidArgumentError):
        scoped(name)
    assert scoped("demo/orders") == ("demo", "orders")


def test_nothing_is_destroyed_without_yes_where_nobody_can_be_asked():
    with pytest.raises(errors.InvalidArgumentError, match="--yes"):
        confirm("Delete everything", yes=False)
    confirm("Delete everything", yes=True)


@pytest.mark.parametrize(
    ("answer", "done"), [("y\n", True), ("Yes\n", True), ("n\n", False), ("\n", False), ("", False)]
)
def test_a_person_is_asked_and_silence_is_no(monkeypatch, answer, done, capsys):
    class Terminal:
        def isatty(self):
            return True

        def readline(self):
            return answer

    monkeypatch.setattr(sys, "stdin", Terminal())
    if done:
        confirm("Delete it", yes=False)
    else:
        with pytest.raises(errors.InvalidArgumentError):
            confirm("Delete it", yes=False)
    assert capsys.readouterr().out == ""


@pytest.mark.slow
@pytest.mark.parametrize("words", [("--help",), ("event", "--help"), ("event", "read", "--help")])
def test_help_imports_nothing_of_the_system_and_no_other_noun(words):
    code = (
        "import sys\n"
        "from headrace.cli.main import main\n"
        f"assert main({words!r}) == 0\n"
        "heavy = {'grpc', 'asyncio', 'numpy', 'rich', 'logging', 'headrace.client', 'headrace.processes'}\n"
        "heavy |= {'headrace.model', 'headrace.cli.scope.command'}\n"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, env={**os.environ})


@pytest.mark.slow
def test_a_module_is_the_same_command():
    done = subprocess.run([sys.executable, "-m", "headrace"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("Usage: headrace NOUN VERB")


@pytest.mark.parametrize(
    ("option", "what"),
    [
        ("--users", "the name of a file"),
        ("--tls-cert", "the name of a file"),
        ("--tls-key", "the name of a file"),
        ("--storage", "the URI"),
    ],
)
def test_a_server_does_not_start_because_a_variable_of_a_script_is_empty(option, what, capsys):
    assert entry.main(["standalone", option, ""]) == 2
    assert f"Invalid value for '{option}': {what} is empty" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["zookeeper:127.0.0.1:2181", "none", ""])
def test_what_is_no_coordinator_is_refused_with_what_is(name, capsys, tmp_path):
    data = tmp_path / "data"
    assert entry.main(["segmentstore", "--coordinator", name, "--data-dir", str(data)]) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert f"'--coordinator': {name!r} is no URI of a coordinator: zk://HOST:PORT,HOST:PORT/ROOT" in said
    assert not data.exists()


def test_a_segment_store_is_told_its_coordinator(capsys):
    assert entry.main(["segmentstore"]) == 2
    assert "Missing option '--coordinator'" in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize("word", ["json", "JSON", "jsonl"])
@pytest.mark.parametrize("more", [(), ("--json",)])
def test_who_asks_for_the_format_json_is_told_the_option(word, more, capsys):
    code = entry.main(["event", "read", "s/t", "--format", word, *more, "--uri", "tcp://127.0.0.1:1"])
    assert (code, capsys.readouterr().err) == (
        2,
        f"headrace: --format {word} would print this word for each event: --json prints them as JSON\n",
    )


@pytest.mark.parametrize("word", ["--storage", "--from"])
@pytest.mark.parametrize(
    "line",
    [
        "storage check {} file:///x",
        "storage rebuild {} file:///x --data-dir d",
        "storage copy {}=file:///x --to file:///y",
        "storage export s/t {} file:///x --to y",
        "storage import {} file:///x",
    ],
)
def test_the_store_that_a_verb_reads_has_one_option(word, line):
    given = parse(line.format(word).split())
    assert "file:///x" in (given.get("storage"), given.get("source"))


@pytest.mark.parametrize(
    ("line", "given"),
    [
        ("controller --coordinator zk://h/r", {"coordinator": "zk://h/r"}),
        ("controller --coordinator=zk://h/r -v", {"coordinator": "zk://h/r", "debug": True}),
        ("controller -v --coordinator zk://h/r", {"coordinator": "zk://h/r", "debug": True}),
        ("controller --port 0 --host failed-events", {"controller_port": 0, "host": "failed-events"}),
        ("controller failed-events --json", {"as_json": True}),
        ("controller --json failed-events", {"as_json": True}),
        ("--json controller failed-events", {"as_json": True}),
    ],
)
def test_a_noun_does_something_itself_if_it_begins_with_its_own_options(line, given):
    assert given.items() <= parse(shlex.split(line)).items()


def test_a_noun_does_something_itself_if_the_environment_has_what_it_needs(monkeypatch):
    monkeypatch.setenv("HEADRACE_COORDINATOR", "zk://h/r")
    assert parse(["controller"])["coordinator"] == "zk://h/r"
    assert "coordinator" not in parse(["controller", "failed-events"])
    assert parse(["cluster", "status"])["coordinator"] == "zk://h/r"


def test_help_of_a_noun_that_does_something_itself_has_its_options_and_its_verbs(capsys):
    assert entry.main(["controller", "--help"]) == 0
    shown = capsys.readouterr().out
    assert "--coordinator" in shown
    assert "failed-events" in shown
    assert "headrace controller [OPTIONS] | VERB ..." in shown
