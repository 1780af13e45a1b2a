"""Servers that have names: which one a verb is pointed at, and what of it is taken along."""

import json
import os
import stat

import pytest

from headrace.cli import contexts
from headrace.cli import main as entry
from headrace.cli.servers import Connection, RestServer
from headrace.cli.verbs import Later

MAKERS = ("HEADRACE_URI", "HEADRACE_USER", "HEADRACE_PASSWORD", "HEADRACE_CONTEXT", "HEADRACE_TLS_CA")


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    for name in MAKERS:
        monkeypatch.delenv(name, raising=False)
    return tmp_path


@pytest.fixture
def asked(monkeypatch):
    """Return what the function of a verb about scopes or purges is given, with the user that clients find."""
    real = Later.__call__

    def call(self, **chosen):
        if self.module.startswith("headrace.cli.context"):
            return real(self, **chosen)
        given.append({**chosen, "user": os.environ.get("HEADRACE_USER")})
        return None

    given = []
    monkeypatch.setattr(Later, "__call__", call)
    # What is given to the environment is taken back after the test.
    monkeypatch.setattr(os, "environ", dict(os.environ))

    def ask(words):
        assert entry.main(words.split()) == 0
        return given[-1]

    return ask


def run(words, code=0):
    assert entry.main(words.split()) == code


def connection(asked, words="scope list"):
    return asked(words)["connection"]


def test_the_one_that_was_added_last_is_meant_until_another_is_used(asked):
    assert connection(asked) == Connection("tcp://localhost:9090")
    run("context add one tcp://one:1")
    run("context add two tcp://two:2")
    assert connection(asked) == Connection("tcp://two:2")
    run("context use one")
    assert connection(asked) == Connection("tcp://one:1")
    run("context remove one")
    assert connection(asked) == Connection("tcp://localhost:9090")


def test_what_is_said_counts_more_and_takes_nothing_of_the_context_along(asked, home, monkeypatch):
    for name in ("ca", "password"):
        (home / name).write_text("secret\n")
    run(f"context add prod tls://a:1 --tls-ca {home}/ca --user ada --password-file {home}/password")
    assert connection(asked, "scope list -c tcp://other:1") == Connection("tcp://other:1", None)
    assert asked("scope list -c tcp://other:1")["user"] is None
    monkeypatch.setenv("HEADRACE_URI", "tcp://variable:1")
    assert connection(asked) == Connection("tcp://variable:1", None)
    monkeypatch.delenv("HEADRACE_URI")
    assert asked("scope list") == {
        "connection": Connection("tls://a:1", str(home / "ca")),
        "as_json": False,
        "user": "ada",
    }
    assert os.environ["HEADRACE_PASSWORD"] == "secret"


def test_a_user_of_the_environment_is_not_replaced(asked, home, monkeypatch):
    (home / "password").write_text("secret")
    run(f"context add prod tcp://a:1 --user ada --password-file {home}/password")
    monkeypatch.setitem(os.environ, "HEADRACE_USER", "bob")
    assert asked("scope list")["user"] == "bob"


def test_a_variable_says_another_one_or_none_for_a_shell(asked, monkeypatch, capsys):
    run("context add one tcp://one:1")
    run("context add two tcp://two:2")
    monkeypatch.setitem(os.environ, "HEADRACE_CONTEXT", "one")
    assert connection(asked) == Connection("tcp://one:1")
    run("context use two")
    assert "in this shell it counts instead" in capsys.readouterr().err
    monkeypatch.setitem(os.environ, "HEADRACE_CONTEXT", "")
    assert connection(asked) == Connection("tcp://localhost:9090")
    monkeypatch.setitem(os.environ, "HEADRACE_CONTEXT", "three")
    run("scope list", code=2)
    assert "no context 'three'; there are: one, two" in capsys.readouterr().err


def test_rest_has_an_address_of_its_own_and_is_never_guessed(asked, home, capsys):
    (home / "ca").write_text("")
    run(f"context add one tls://one:1 --rest https://one:2 --tls-ca {home}/ca")
    assert asked("stream purge s/t --yes")["rest"] == RestServer("https://one:2", str(home / "ca"))
    run(f"context add two tls://two:1 --rest two:2 --tls-ca {home}/ca")
    assert asked("stream purge s/t --yes")["rest"] == RestServer("two:2", None)
    run("context add three tcp://three:1")
    run("stream purge s/t --yes", code=2)
    assert "no REST address: give --rest" in capsys.readouterr().err
    assert asked("stream purge s/t --yes --rest 127.0.0.1:1")["rest"] == RestServer("127.0.0.1:1", None)


def test_they_are_listed_without_secrets_and_only_their_owner_reads_them(home, capsys):
    (home / "password").write_text("secret")
    run(f"context add prod tcp://a:1 --user ada --password-file {home}/password")
    run("context add test tcp://b:1")
    run("context list --json")
    lines = json.loads(capsys.readouterr().out)
    assert [(each["name"], each["used"], each["user"]) for each in lines] == [
        ("prod", False, "ada"),
        ("test", True, None),
    ]
    run("context list")
    assert "tcp://b:1" in capsys.readouterr().out
    assert "secret" not in contexts.contexts_file().read_text()
    assert stat.S_IMODE(contexts.contexts_file().stat().st_mode) == 0o600


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("context add a/b tcp://a:1", "no name of a context"),
        ("context add a ftp://a:1", "ftp"),
        ("context add a tcp://a:1 --tls-ca {home}/ca", "without TLS"),
        ("context add a tls://a:1 --tls-ca {home}/none", "is no file"),
        ("context add a tcp://a:1 --user ada", "belong to each other"),
        ("context add there tcp://a:1", "add --replace"),
        ("context use none", "there is no context 'none'; there are: there"),
        ("context remove none", "there is no context 'none'"),
    ],
)
def test_what_is_wrong_is_told_and_changes_nothing(home, capsys, words, told):
    (home / "ca").write_text("")
    run("context add there tcp://there:1")
    before = contexts.contexts_file().read_bytes()
    run(words.format(home=home), code=2)
    assert told in capsys.readouterr().err
    assert contexts.contexts_file().read_bytes() == before
    run("context remove none --if-exists")


@pytest.mark.parametrize(
    "data", [b"", b"{", b"[]", b'{"version": 9}', b'{"version": 1, "contexts": {"a": {"uri": 1}}}']
)
def test_a_file_that_is_none_is_named(capsys, data):
    contexts.contexts_file().parent.mkdir(parents=True)
    contexts.contexts_file().write_bytes(data)
    run("scope list", code=6)
    assert "contexts.json is no file of contexts" in capsys.readouterr().err


def test_a_password_that_is_gone_is_told(home, capsys):
    (home / "password").write_text("secret")
    run(f"context add prod tcp://a:1 --user ada --password-file {home}/password")
    (home / "password").unlink()
    run("scope list", code=2)
    assert "the password of user ada cannot be read" in capsys.readouterr().err
