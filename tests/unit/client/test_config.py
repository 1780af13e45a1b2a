import pickle

import pytest

from headrace.client.config import ClientConfig, ControllerAddress, ReaderConfig, WriterConfig
from headrace.client.control.tokens import expiry_ms
from headrace.client.credentials import Credentials
from headrace.client.writer.txn_writer import ping_interval_s
from headrace.errors import InvalidArgumentError


@pytest.mark.parametrize(
    ("uri", "endpoints", "tls", "discover"),
    [
        ("tcp://host:9091", [("host", 9091)], False, False),
        ("host", [("host", 9090)], False, False),
        ("tls://a:1,b", [("a", 1), ("b", 9090)], True, False),
        ("pravega://a:1/", [("a", 1)], False, True),
        ("pravegas://a", [("a", 9090)], True, True),
        ("tcp://[::1]:5", [("::1", 5)], False, False),
    ],
)
def test_a_uri_names_controllers_and_how_to_talk_to_them(uri, endpoints, tls, discover):
    address = ControllerAddress.parse(uri)
    assert list(address.endpoints) == endpoints
    assert (address.tls, address.discover) == (tls, discover)


@pytest.mark.parametrize(
    "uri", ["http://a", "tcp://", "tcp://a:x", "tcp://a:70000", "tcp://a/b", "tcp://a,,b", 9090, b"tcp://a"]
)
def test_a_uri_that_makes_no_sense_is_refused(uri):
    with pytest.raises(InvalidArgumentError):
        ControllerAddress.parse(uri)


def test_credentials_come_from_the_environment_and_stay_out_of_prints():
    environment = {"pravega_client_auth_method": "Bearer", "pravega_client_auth_token": "secret"}
    credentials = Credentials.from_environment(environment)
    assert (credentials.method, credentials.token) == ("Bearer", "secret")
    assert "secret" not in repr(credentials)
    assert Credentials.from_environment({}) is None


@pytest.mark.parametrize(
    ("segments", "mebibytes"), [(1, 32), (64, 32), (65, 32.5), (1000, 500), (1024, 512), (100_000, 512)]
)
def test_the_window_of_a_writer_fits_its_stream_unless_one_was_chosen(segments, mebibytes):
    assert WriterConfig().window_bytes(segments) == mebibytes * (1 << 20)
    assert WriterConfig(window_bytes_max=1 << 20).window_bytes(segments) == 1 << 20


@pytest.mark.parametrize(
    "make",
    [
        lambda: WriterConfig(block_bytes_max=10),
        lambda: WriterConfig(block_bytes_max=16 << 20),
        lambda: WriterConfig(blocks_in_flight_max=0),
        lambda: WriterConfig(window_bytes_max=1000),
        lambda: ReaderConfig(read_bytes_max=1),
        lambda: ReaderConfig(window_bytes_max=1),
    ],
)
def test_settings_outside_their_range_are_refused(make):
    with pytest.raises(InvalidArgumentError):
        make()


def test_a_configuration_is_a_value_that_can_be_pickled():
    config = ClientConfig(writer=WriterConfig(block_bytes_max=4096))
    assert pickle.loads(pickle.dumps(config)) == config


@pytest.mark.parametrize(
    ("lease_ms", "interval_ms"),
    [(10_000, 3162), (30_000, 5477), (90_000, 9487), (120_000, 10954), (599_999, 24495)],
)
def test_pings_are_as_frequent_as_those_of_other_clients(lease_ms, interval_ms):
    assert round(ping_interval_s(lease_ms) * 1000) == interval_ms


def test_a_token_says_when_it_expires_or_nothing():
    assert expiry_ms("e30.eyJleHAiOiAxNzAwMDAwMDAwfQ.sig") == 1_700_000_000_000
    for token in ("", "a.b", "a.b.c", "e30.e30.e30", "e30.bm8.x"):
        assert expiry_ms(token) is None
