"""Who asks and what is trusted: from options or the environment to every client, and to no text."""

import base64
import pickle
from pathlib import Path

import pytest

from headrace.client import Credentials
from headrace.errors import InvalidArgumentError
from headrace.spark.client_cache import ClientCache
from headrace.spark.options import parse_sink, parse_source

STREAM = {"scope": "s", "stream": "t", "controller": "tcp://localhost:1"}
ME = Credentials.basic("me", "hush")


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    for name in ("HEADRACE_USER", "HEADRACE_PASSWORD", "HEADRACE_TLS_CA"):
        monkeypatch.delenv(name, raising=False)


def parse_all(options):
    return (
        parse_source(STREAM | options, streaming=False),
        parse_source(STREAM | options, streaming=True),
        parse_sink(STREAM | options, streaming=False),
        parse_sink(STREAM | options, streaming=True),
    )


def config_of(parsed):
    """What a client is opened with, where the options arrive after they were pickled."""
    there = pickle.loads(pickle.dumps(parsed))
    return ClientCache().client(there.connection).config


@pytest.mark.parametrize(
    "options",
    [
        {"user": "me", "password": "hush"},
        {"username": "me", "password": "hush"},
        {"USER": "me", "Password": "hush"},
    ],
)
def test_a_user_and_a_password_reach_every_client(options):
    for parsed in parse_all(options):
        assert config_of(parsed).credentials == ME
        assert parsed.without_meaning == ()


def test_a_password_is_the_first_line_of_its_file(tmp_path):
    file = tmp_path / "password"
    file.write_bytes(b"hush\r\n")
    for parsed in parse_all({"user": "me", "password_file": str(file)}):
        assert config_of(parsed).credentials == ME
        assert b"hush" not in pickle.dumps(parsed)


def test_a_token_is_sent_as_bearer(tmp_path):
    file = tmp_path / "token"
    file.write_text("ey\n")
    for options in ({"auth_token": "ey"}, {"auth_token_file": str(file)}):
        assert config_of(parse_all(options)[0]).credentials == Credentials(method="Bearer", token="ey")


@pytest.mark.parametrize(
    "options", [{"password_file": "/missing", "user": "me"}, {"auth_token_file": "/missing"}]
)
def test_a_secret_that_cannot_be_read_names_option_and_file(options):
    parsed = parse_all(options)[0]
    with pytest.raises(InvalidArgumentError, match="_file: /missing"):
        config_of(parsed)


def test_the_environment_counts_without_options_in_each_process(monkeypatch):
    parsed = parse_all({})[0]
    monkeypatch.setenv("HEADRACE_USER", "me")
    monkeypatch.setenv("HEADRACE_PASSWORD", "hush")
    monkeypatch.setenv("HEADRACE_TLS_CA", "/some/ca.pem")
    config = config_of(parsed)
    assert (config.credentials, config.tls_authorities) == (ME, Path("/some/ca.pem"))
    given = config_of(parse_all({"user": "you", "password": "x", "tls_ca": "/other/ca.pem"})[0])
    assert given.credentials == Credentials.basic("you", "x")
    assert given.tls_authorities == Path("/other/ca.pem")


def test_files_of_tls_reach_every_client():
    options = {"tls_ca": "/ca", "tls_cert_file": "/cert", "tls_key_file": "/key"}
    for parsed in parse_all(options):
        config = config_of(parsed)
        assert (config.tls_authorities, config.tls_cert, config.tls_key) == (
            Path("/ca"),
            Path("/cert"),
            Path("/key"),
        )
    assert config_of(parse_all({"tls_ca_file": "/old"})[0]).tls_authorities == Path("/old")


def test_no_text_shows_a_secret():
    for options, secret in (({"user": "me", "password": "hush"}, "hush"), ({"auth_token": "hush"}, "hush")):
        for parsed in parse_all(options):
            cache = ClientCache()
            client = cache.client(parsed.connection)
            shown = f"{parsed!r} {parsed.connection!r} {client!r} {client.config!r} {vars(cache)!r}"
            assert secret not in shown
            assert base64.b64encode(b"me:hush").decode() not in shown
