"""The real Rust client (the ``pravega`` wheel) against a server with certificates and users.

It reads certificates from every file of a directory, checks them against names only, and says nowhere what it
wants a stream for: a user who may only read cannot read with it.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.secure_server import TOKENS_S, USERS
from tests.servers import running_secure

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.skipif(sys.version_info >= (3, 12), reason="the wheel pravega has no build for Python 3.12"),
]

_PROGRAM = Path(__file__).with_name("wheel_program.py")
_DENIED_S = 5


@pytest.fixture(scope="module")
def server(server_kind, tmp_path_factory):
    with running_secure(server_kind, tmp_path_factory.mktemp("wheel")) as made:
        with made.connect_blocking() as client:
            client.create_scope("sales")
            client.create_scope("other")
            client.create_stream("sales", "shared")
        yield made
        assert made.stop() == 0
        assert " ERROR " not in made.log()


@pytest.fixture
def start(server, tmp_path):
    """Start a case as a user; what it finds is on its stdout."""
    trusted = tmp_path / "trusted"
    trusted.mkdir()
    (trusted / "authority.pem").write_bytes(server.certificates.ca.read_bytes())
    processes = []

    def start_case(case, user, scope="sales", password=None, trusted=trusted):
        secrets = {
            "pravega_client_tls_cert_path": str(trusted),
            "pravega_client_auth_method": "Basic",
            "pravega_client_auth_username": user,
            "pravega_client_auth_password": password or USERS[user][0],
        }
        process = subprocess.Popen(
            [sys.executable, _PROGRAM, case, server.uri, scope],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **secrets},
        )
        processes.append(process)
        return process

    yield start_case
    for process in processes:
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout, process.stderr):
            pipe.close()


@pytest.fixture
def run(start):
    """Run a case as a user; return what it finds, by name."""

    def run_case(*arguments, **options):
        process = start(*arguments, **options)
        said, complaints = process.communicate(timeout=60)
        assert process.returncode == 0, complaints[-2000:]
        return dict(json.loads(line) for line in said.splitlines() if line.startswith("["))  # else a log

    return run_case


@pytest.mark.parametrize("user", ["admin", "writer"])
def test_a_user_who_may_update_does_everything(run, user):
    facts = run("everything", user)
    assert len(facts) >= 6
    assert set(facts.values()) == {True}


def test_grants_for_a_stream_and_a_group_suffice_to_write_and_read(run):
    facts = run("write_and_read", "rustling")
    assert facts == {"read": True}


@pytest.mark.slow
def test_a_writer_and_a_reader_outlive_their_tokens(start):
    process = start("outlive", "admin", scope="other")
    for _ in range(round(TOKENS_S * 1.6)):
        process.stdin.write("\n")
        process.stdin.flush()
        assert json.loads(process.stdout.readline()) == ["read", True]
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(1)  # tokens expire by the clock of this machine
    process.stdin.close()
    assert process.wait(30) == 0


@pytest.mark.parametrize(
    ("case", "user"),
    [
        ("create", "reader"),
        ("create", "stranger"),
        ("write", "reader"),
        ("write", "stranger"),
        ("read", "reader"),
        ("read", "stranger"),
    ],
)
def test_what_is_not_granted_fails_at_once(run, case, user):
    facts = run(case, user)
    assert facts["begins"] == case
    assert "Error: " in facts[case] or "Exception: " in facts[case]
    if case != "write":  # whose error says nothing of its cause
        assert "PermissionDenied" in facts[case]


def test_who_may_only_read_sees_what_there_is(run):
    assert "shared" in run("list_streams", "reader")["list_streams"]
    assert run("list_streams", "stranger")["list_streams"] == []


def test_a_wrong_password_opens_nothing(start):
    """The client would try it for some minutes."""
    process = start("write", "admin", password="of another")
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(_DENIED_S)
    process.kill()
    assert process.communicate()[0].splitlines() == ['["begins", "write"]']


def test_a_server_of_an_unknown_authority_is_not_talked_to(start, tmp_path):
    empty = tmp_path / "empty"
    empty.mkdir()
    process = start("list_streams", "admin", trusted=empty)
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(_DENIED_S)
    process.kill()
    assert process.communicate()[0].splitlines() == ['["begins", "list_streams"]']
