"""What a server tells its clients, where it listens on something else."""

import pytest

from headrace.errors import InvalidArgumentError
from headrace.processes.config import PARTS, StandaloneConfig
from headrace.processes.standalone import StandaloneServer
from headrace.runtime.settings_sources import load


def told(**settings):
    config = load(StandaloneConfig, overrides=settings)
    return [str(config.advertised(part, port)) for port, part in enumerate(PARTS, 1)]


def test_clients_are_told_where_it_listens():
    assert told() == ["127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3"]
    assert told(host="::1") == ["[::1]:1", "[::1]:2", "[::1]:3"]


def test_clients_are_told_another_host_for_all_and_for_one_part():
    assert told(host="0.0.0.0", advertise="a.example.org") == [
        "a.example.org:1",
        "a.example.org:2",
        "a.example.org:3",
    ]
    assert told(advertise="a", advertise_segmentstore="b:20", advertise_rest="[::1]") == [
        "a:1",
        "b:20",
        "[::1]:3",
    ]


def test_the_environment_names_what_clients_are_told():
    variables = {"HEADRACE_HOST": "::", "HEADRACE_ADVERTISE": "a", "HEADRACE_ADVERTISE_CONTROLLER": "b:5"}
    config = load(StandaloneConfig, environment=variables)
    assert config.advertised("controller", 1) == ("b", 5)
    assert config.advertised("rest", 1) == ("a", 1)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"host": "0.0.0.0"}, r"host = '0.0.0.0' is every address.*--advertise HOST"),
        ({"host": "::"}, r"host = '::' is every address.*--advertise HOST"),
        ({"host": "0"}, "host = '0' is every address"),
        ({"host": "::", "advertise_controller": "a", "advertise_rest": "a"}, "host = '::' is every"),
        ({"advertise": "0.0.0.0"}, "advertise = '0.0.0.0' is every address"),
        ({"advertise_rest": "0.0.0.0:1"}, "advertise_rest = '0.0.0.0' is every"),
        ({"advertise": "a:1"}, "advertise = 'a:1' is no host"),
        ({"host": "[::1]"}, r"host = '\[::1\]' is no host"),
        ({"advertise_rest": "a:x"}, "advertise_rest = 'a:x' is not HOST:PORT"),
        ({"advertise_rest": "::1"}, "advertise_rest = '::1': an IPv6 address stands in brackets"),
        ({"rest_hosts": ["a.example.org", "b:1"]}, "rest_hosts = 'b:1' is no host"),
        ({"rest_hosts": ["*"]}, r"rest_hosts = '\*' is no host"),
        ({"rest_hosts": [""]}, "rest_hosts is empty"),
        ({"advertise_segmentstore": "a..b"}, "advertise_segmentstore = .* is no name of a host"),
    ],
)
def test_what_no_client_could_use_is_refused(settings, words):
    with pytest.raises(InvalidArgumentError, match=words):
        load(StandaloneConfig, overrides=settings)


def test_an_embedded_server_is_checked_as_well():
    with pytest.raises(InvalidArgumentError, match="--advertise"):
        StandaloneServer(StandaloneConfig(in_memory=True, host="0.0.0.0"))
