import argparse
import os
import shlex
import subprocess
import sys

import pytest

from headrace import errors
from headrace.cli import main as entry
from headrace.cli.verbs import confirm, scoped


def verbs(parser=None, path=()):
    """Yield (path, parser) of every command that can be run."""
    parser = parser or entry.build_parser()
    choices = [a.choices for a in parser._actions if isinstance(a, argparse._SubParsersAction)]
    if not choices:
        yield path, parser
    for name, child in choices[0].items() if choices else ():
        yield from verbs(child, (*path, name))


def examples():
    """Yield every complete command line that help shows."""
    for text in [entry.build_parser().epilog, *(parser.epilog for _, parser in verbs())]:
        for line in text.partition("Example:\n")[2].splitlines():
            yield line.strip()


def run_failing(monkeypatch, error, uri=None):
    def fail(_):
        raise error

    parser = argparse.ArgumentParser()
    parser.set_defaults(run=fail, **({"uri": uri} if uri else {}))
    monkeypatch.setattr(entry, "build_parser", lambda: parser)
    return entry.main([])


def test_every_verb_is_there():
    assert {" ".join(path) for path, _ in verbs()} == {
        "standalone",
        "demo",
        *(f"scope {verb}" for verb in ("list", "create", "delete")),
        *(
            f"stream {verb}"
            for verb in ("list", "create", "describe", "cut", "scale", "truncate", "purge", "seal", "delete")
        ),
        *(f"event {verb}" for verb in ("write", "read")),
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
        "storage check",
        "storage export",
        "storage import",
        "storage rebuild",
        "storage repair",
        "storage copy",
        "controller failed-events",
    }


@pytest.mark.parametrize("line", list(examples()))
def test_every_example_is_a_legal_command_line(line):
    words = shlex.split(line.rpartition("|")[2].partition("<")[0])
    assert words[0] == "headrace"
    assert callable(entry.build_parser().parse_args(words[1:]).run)


@pytest.mark.parametrize(
    ("path", "parser"), list(verbs()), ids=lambda value: " ".join(value) if isinstance(value, tuple) else ""
)
def test_help_ends_with_examples_and_fits_on_a_screen(path, parser):
    text = parser.format_help()
    assert f"headrace {' '.join(path)}" in text.partition("Example:\n")[2]
    assert len(text.splitlines()) <= 40
    assert all(len(line) <= 100 for line in text.splitlines())
    assert all(action.help or action.metavar for action in parser._actions)


OFFLINE = {"standalone", "demo", "controller", "user", "inspect", "check", "storage"}


@pytest.mark.parametrize("path", [path for path, _ in verbs() if path[0] not in OFFLINE])
def test_every_verb_that_asks_a_server_takes_its_uri_and_answers_in_json(path):
    taken = set(dict(verbs())[path]._option_string_actions)
    assert "--json" in taken
    assert taken & {"--uri", "--rest"}


@pytest.mark.parametrize("path", [path for path, _ in verbs() if path[0] in {"inspect", "check"}])
def test_every_verb_that_looks_into_data_answers_in_json(path):
    assert "--json" in dict(verbs())[path]._option_string_actions


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
    for _ in range(4):
        done = subprocess.run(
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
        confirm(argparse.Namespace(yes=False), "Delete everything")
    confirm(argparse.Namespace(yes=True), "Delete everything")


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
        confirm(argparse.Namespace(yes=False), "Delete it")
    else:
        with pytest.raises(errors.InvalidArgumentError):
            confirm(argparse.Namespace(yes=False), "Delete it")
    assert capsys.readouterr().out == ""


def test_help_imports_nothing_of_the_system():
    code = (
        "import sys; sys.argv = ['headrace', '--help']\n"
        "from headrace.cli.main import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "heavy = ('grpc', 'asyncio', 'numpy', 'typer', 'rich', 'headrace.client', 'headrace.standalone')\n"
        "found = [name for name in heavy if name in sys.modules]\n"
        "assert not found, found\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, env={**os.environ})


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
    with pytest.raises(SystemExit) as ended:
        entry.build_parser().parse_args(["standalone", option, ""])
    assert ended.value.code == 2
    assert f"argument {option}: {what} is empty" in capsys.readouterr().err
