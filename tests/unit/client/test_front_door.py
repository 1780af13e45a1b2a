"""``import headrace`` is the front door: it names everything, and loads nothing before it is used."""

import socket
import subprocess
import sys

import pytest

import headrace
from headrace import aio, client, errors
from headrace.client import blocking
from headrace.client.control import controller
from headrace.errors import UnreachableError

TWINS = {"Client", "EventReader", "EventWriter", "KeyValueTable", "Transaction", "TxnWriter", "connect"}


def test_the_front_door_has_the_blocking_client_and_aio_the_other_one():
    old = {name for name in blocking.__all__ if name.startswith("Blocking")}
    assert set(headrace.__all__) == set(blocking.__all__) - old | {"aio", "errors"}
    assert set(client.__all__) <= set(headrace.__all__)
    for name in client.__all__:
        assert getattr(aio, name) is getattr(client, name)
        assert (getattr(headrace, name) is not getattr(aio, name)) or name not in TWINS
    assert headrace.Client is blocking.BlockingClient
    assert headrace.connect is blocking.connect
    assert headrace.aio is aio
    assert headrace.errors is errors


def test_the_environment_says_where_to_connect(monkeypatch):
    monkeypatch.delenv("HEADRACE_URI", raising=False)
    assert headrace.connect().uri == "tcp://localhost:9090"
    monkeypatch.setenv("HEADRACE_URI", "tcp://elsewhere:1")
    assert headrace.connect().uri == "tcp://elsewhere:1"
    assert headrace.connect("tcp://here:2").uri == "tcp://here:2"


def test_dir_lists_the_names_and_a_misspelt_one_is_an_attribute_error():
    public = {name for name in dir(headrace) if not name.startswith("_")}
    assert public == {*headrace.__all__, "spark", "testing"}
    assert "__version__" in dir(headrace)
    with pytest.raises(AttributeError, match="no attribute 'conect'"):
        _ = headrace.conect


@pytest.mark.cluster
def test_what_is_not_used_is_not_loaded():
    program = (
        "import sys, headrace; dir(headrace); before = set(sys.modules); headrace.connect; "
        "print([name in before for name in ('headrace.client', 'grpc', 'asyncio')], 'grpc' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[False, False, False] True\n"


def test_where_no_server_runs_the_error_says_what_to_do(monkeypatch, caplog):
    monkeypatch.setattr(controller, "_TOLD_AFTER", 1)
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))  # taken, and not listened to
        address = f"127.0.0.1:{nobody.getsockname()[1]}"
        twice = headrace.ClientConfig(control_attempts=2)
        why = f"{address}: Connection refused; .*headrace standalone"
        with (
            headrace.connect(f"tcp://{address}", twice) as client,
            pytest.raises(UnreachableError, match=why) as raised,
        ):
            client.create_scope("demo")
    assert raised.value.__cause__ is None  # nothing of gRPC stands above it
    assert [each.message for each in caplog.records] == ["no controller takes the connection, trying again"]


@pytest.mark.skipif(not socket.has_ipv6, reason="the system has no IPv6")
def test_an_address_of_ipv6_is_told_as_it_is_written():
    once = headrace.ClientConfig(control_attempts=1)
    with (
        headrace.connect("tcp://[::1]:1", once) as client,
        pytest.raises(UnreachableError, match=r"nothing was sent: \[::1\]:1: "),
    ):
        client.create_scope("demo")
