import base64
import logging
import pickle

import pytest

from headrace.client import ClientConfig, Credentials, connect
from headrace.client.blocking import connect as connect_blocking
from headrace.errors import InvalidArgumentError

HEADRACE = {"HEADRACE_USER": "me", "HEADRACE_PASSWORD": "hush: ü"}
TOKEN = {"pravega_client_auth_method": "Bearer", "pravega_client_auth_token": "ey"}
PAIR = {"pravega_client_auth_username": "you", "pravega_client_auth_password": "hush"}


@pytest.mark.parametrize(
    ("environment", "method", "token"),
    [
        (HEADRACE, "Basic", base64.b64encode("me:hush: ü".encode()).decode()),
        (HEADRACE | TOKEN | PAIR, "Basic", base64.b64encode("me:hush: ü".encode()).decode()),
        (TOKEN | PAIR, "Bearer", "ey"),
        (PAIR, "Basic", base64.b64encode(b"you:hush").decode()),
        (PAIR | {"pravega_client_auth_method": "Basic"}, "Basic", base64.b64encode(b"you:hush").decode()),
    ],
)
def test_credentials_come_from_the_environment_ours_first(environment, method, token):
    assert Credentials.from_environment(environment) == Credentials(method=method, token=token)


@pytest.mark.parametrize(
    "environment",
    [{}, dict.fromkeys(HEADRACE, ""), {"pravega_client_auth_method": "Bearer"} | PAIR],
    ids=["nothing", "empty", "another method"],
)
def test_what_is_not_set_is_none(environment):
    assert Credentials.from_environment(environment) is None


@pytest.mark.parametrize("missing", HEADRACE)
def test_half_a_pair_is_refused_and_the_other_half_not_shown(missing):
    environment = HEADRACE | {missing: ""}
    with pytest.raises(InvalidArgumentError, match=f"{missing} is not") as caught:
        Credentials.from_environment(environment)
    assert "hush" not in str(caught.value)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Credentials.basic("", "hush"),
        lambda: Credentials.basic("me:hush", "hush"),
        lambda: Credentials(method="Bearer", token="hush\n"),
        lambda: Credentials(method="Bearer hush", token="hush"),
        lambda: Credentials(method="Bearer", token="hüsh"),
    ],
)
def test_what_no_header_carries_is_refused_without_being_shown(make):
    with pytest.raises(InvalidArgumentError) as caught:
        make()
    assert "hush" not in str(caught.value)


def test_no_representation_shows_a_password():
    credentials = Credentials.basic("me", "hush")
    config = ClientConfig(credentials=credentials)
    with connect_blocking("tcp://localhost:1", config) as client:
        shown = f"{credentials!r} {config!r} {client!r} {config}"
    assert "hush" not in shown
    assert credentials.token not in shown
    assert pickle.loads(pickle.dumps(config)) == config


@pytest.mark.parametrize(
    ("uri", "warnings"),
    [
        ("tcp://controller.example:9090", 1),
        ("tcp://127.0.0.1:9090,10.0.0.1:9090", 1),
        ("tls://controller.example:9090", 0),
        ("tcp://localhost", 0),
        ("tcp://127.0.0.9", 0),
        ("tcp://[::1]:9090", 0),
    ],
)
async def test_credentials_that_leave_the_machine_unencrypted_are_warned_of(caplog, uri, warnings):
    with caplog.at_level(logging.DEBUG):
        async with connect(uri, ClientConfig(credentials=Credentials.basic("me", "hush"))):
            pass
    said = [each for each in caplog.records if each.levelno >= logging.WARNING]
    assert len(said) == warnings
    assert "hush" not in caplog.text


async def test_a_client_without_credentials_is_not_warned(caplog):
    async with connect("tcp://controller.example", ClientConfig(credentials=None)):
        assert caplog.text == ""
