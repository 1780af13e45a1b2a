"""Clients of users, over TLS, with tokens that expire: all that a person or a program connects with."""

import base64
import json
import os
import subprocess
import sys

import pytest

from headrace.client import ClientConfig, Credentials, StreamConfiguration, connect
from headrace.client.blocking import connect as connect_blocking
from headrace.errors import PermissionDeniedError, TlsError, UnauthenticatedError
from headrace.testing import LocalServer
from headrace.testing.local_server import HEADRACE
from tests import programs
from tests.certificates import CertificateFiles

pytestmark = pytest.mark.cluster

USERS = {
    "ada": ("crimson-lake", "prn::*,READ_UPDATE"),
    "rea": ("indigo-reef", "prn::/scope:sales*,READ"),
}
SECRETS = [password for password, *_ in USERS.values()]
SECRETS += [base64.b64encode(f"{name}:{password}".encode()).decode() for name, (password, _) in USERS.items()]


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return CertificateFiles(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def server(files, tmp_path_factory):
    with LocalServer(
        tmp_path_factory.mktemp("server"),
        "--containers",
        "2",
        "--log-level",
        "debug",
        *files.arguments,
        users=USERS,
    ) as running:
        yield running


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    for name in ("HEADRACE_USER", "HEADRACE_PASSWORD", "HEADRACE_TLS_CA"):
        monkeypatch.delenv(name, raising=False)


def config(files, name=None, password=None):
    credentials = None if name is None else Credentials.basic(name, password or USERS[name][0])
    return ClientConfig(credentials=credentials, tls_authorities=files.ca)


@pytest.fixture(scope="module")
def orders(server, files):
    """A stream with three events."""
    with connect_blocking(server.uri, config(files, "ada")) as client:
        client.create_scope("sales")
        client.create_stream("sales", "orders", StreamConfiguration())
        with client.event_writer("sales", "orders") as writer:
            for number in range(3):
                writer.write(b"%d" % number).wait()
    return "sales/orders"


def run(*arguments, name=None, password=None, authority=None, **variables):
    """Run the command as a person does; return exit code, output and errors."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("HEADRACE_")}
    if name is not None:
        environment |= {"HEADRACE_USER": name, "HEADRACE_PASSWORD": password or USERS[name][0]}
    if authority is not None:
        environment["HEADRACE_TLS_CA"] = str(authority)
    done = programs.run(
        [*HEADRACE, *arguments], capture_output=True, text=True, env=environment | variables, check=False
    )
    assert not any(secret in done.stdout + done.stderr for secret in SECRETS)
    return done.returncode, done.stdout, done.stderr


def test_the_command_line_does_a_round_trip(server, files, orders):
    where = ("--uri", server.uri, "--tls-ca", str(files.ca))
    assert run("stream", "create", "sales/copies", *where, name="ada")[0] == 0
    assert run("event", "write", "sales/copies", "hello", *where, name="ada")[0] == 0
    code, out, _ = run("event", "read", "sales/copies", *where, name="rea")
    assert (code, out) == (0, "hello\n")
    code, out, _ = run("event", "read", orders, name="rea", authority=files.ca, HEADRACE_URI=server.uri)
    assert (code, out) == (0, "0\n1\n2\n")


def test_everybody_may_ask_whether_the_server_is_ready(server, files, orders):
    where = ("--rest", server.rest_url, "--uri", server.uri, "--tls-ca", str(files.ca), "--json")
    code, out, err = run("status", *where)
    assert code == 0
    assert err.startswith("streams are not known: ")
    found = json.loads(out)
    assert found["ready"] is True
    assert (found["streams"], found["bytes"], found["unstored_bytes"]) == (None, None, None)
    found = json.loads(run("status", *where, name="ada")[1])
    assert found["streams"] >= 1
    assert found["unstored_bytes"] is not None


@pytest.mark.parametrize(
    ("user", "words"),
    [
        ({"name": "ada", "password": "scarlet-lake"}, "wrong"),
        ({"name": "bob", "password": "crimson-lake"}, "wrong"),
        ({}, "set HEADRACE_USER and HEADRACE_PASSWORD"),
    ],
)
def test_who_is_not_known_learns_it_at_the_first_call(server, files, orders, user, words):
    code, out, err = run("event", "read", orders, "--uri", server.uri, authority=files.ca, **user)
    assert (code, out) == (2, "")
    assert words in err
    assert len(err.splitlines()) == 1
    code, out, err = run("inspect", "cache", "--rest", server.rest_url, authority=files.ca, **user)
    assert (code, out) == (2, "")
    assert words in err


def test_a_reader_that_writes_is_refused_and_changes_nothing(server, files, orders):
    code, _, err = run("event", "write", orders, "mine", "--uri", server.uri, name="rea", authority=files.ca)
    assert code == 2
    assert "rea" in err or "READ_UPDATE" in err or "permi" in err.lower()
    with connect_blocking(server.uri, config(files, "rea")) as client:
        with pytest.raises(PermissionDeniedError), client.event_writer("sales", "orders") as writer:
            writer.write(b"mine").wait()
        with pytest.raises(PermissionDeniedError):
            client.delete_scope("sales")
        with client.event_reader("sales", "orders", end="tail") as reader:
            assert [event.data for event in reader] == [b"0", b"1", b"2"]


async def test_both_clients_tell_what_is_wrong(server, files, orders):
    cases = [
        (server.uri, config(files, "ada", "scarlet-lake"), UnauthenticatedError),
        (server.uri, config(files), UnauthenticatedError),
        (server.uri.replace("tls://", "tcp://"), config(files, "ada"), TlsError),
        (server.uri, ClientConfig(credentials=Credentials.basic("ada", "crimson-lake")), TlsError),
    ]
    for uri, given, error in cases:
        async with connect(uri, given) as client:
            with pytest.raises(error) as caught:
                await client.stream_exists("sales", "orders")
        assert not any(secret in repr(caught.value) for secret in SECRETS)
        with connect_blocking(uri, given) as blocking, pytest.raises(error):
            blocking.stream_exists("sales", "orders")


def test_secrets_are_nowhere(server, files, orders):
    digests = [line.split(":")[1] for line in server.users_path.read_text().splitlines() if ":" in line]
    code, statistics, _ = run(
        "inspect", "cache", "--json", "--rest", server.rest_url, name="ada", authority=files.ca
    )
    assert code == 0
    assert json.loads(statistics)
    assert len(digests) == len(USERS)
    assert all(len(each) > 40 for each in digests)
    for text in (server.log(), statistics):
        assert not any(secret in text for secret in [*SECRETS, *digests])
        assert "eyJ" not in text  # how tokens begin


FACES = {
    "blocking": """
import sys, headrace
config = headrace.ClientConfig(credentials=None, tls_authorities=sys.argv[2])
with headrace.connect(sys.argv[1], config) as client:
    try:
        client.create_scope("x")
    except headrace.errors.HeadraceError as error:
        print(type(error).__name__, error)
""",
    "aio": """
import asyncio, sys, headrace
from pathlib import Path
async def ask():
    config = headrace.ClientConfig(credentials=None, tls_authorities=Path(sys.argv[2]))
    async with headrace.aio.connect(sys.argv[1], config) as client:
        try:
            await client.create_scope("x")
        except headrace.errors.HeadraceError as error:
            print(type(error).__name__, error)
asyncio.run(ask())
""",
}


@pytest.mark.parametrize("face", FACES)
def test_a_wrong_authority_is_told_by_our_error_alone(server, tmp_path, face):
    """In a process of its own: what gRPC writes goes to the standard error that it had at its import."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GRPC_")}
    other = CertificateFiles(tmp_path)
    done = subprocess.run(
        [sys.executable, "-c", FACES[face], server.uri, str(other.ca)],
        capture_output=True,
        text=True,
        env=environment,
        check=True,
    )
    assert done.stdout.startswith("TlsError the certificate of")
    assert done.stderr == ""


def test_the_command_line_tells_a_wrong_authority_in_one_line(server, tmp_path, monkeypatch):
    monkeypatch.delenv("GRPC_VERBOSITY", raising=False)
    code, out, err = run("scope", "list", "--uri", server.uri, authority=CertificateFiles(tmp_path).ca)
    assert (code, out) == (2, "")
    assert [line.startswith("headrace: the certificate of") for line in err.splitlines()] == [True]


def test_a_file_of_authorities_that_begins_with_a_mark_gets_its_sentence(server, files, tmp_path):
    marked = tmp_path / "marked.pem"
    marked.write_bytes(b"\xef\xbb\xbf" + files.ca.read_bytes())
    code, _, err = run("scope", "list", "--uri", server.uri, authority=marked)
    assert code == 2
    assert f"{marked} begins with a byte order mark: save it as plain ASCII" in err
