import pytest

from headrace.errors import InvalidArgumentError
from headrace.model.endpoint import Endpoint, is_wildcard


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("host", "host", 9090),
        ("host.example.org:1", "host.example.org", 1),
        ("10.0.0.1:65535", "10.0.0.1", 65535),
        ("[::1]", "::1", 9090),
        ("[2001:db8::1]:5", "2001:db8::1", 5),
        ("[fe80::1%eth0]:5", "fe80::1%eth0", 5),
    ],
)
def test_what_is_parsed_is_written_the_same_with_its_port(text, host, port):
    endpoint = Endpoint.parse(text, 9090)
    assert endpoint == (host, port)
    assert str(endpoint) == (text if text.endswith(f":{port}") else f"{text}:{port}")
    assert Endpoint.parse(str(endpoint), 1) == endpoint


@pytest.mark.parametrize(
    "text",
    [
        *("", ":1", "a:", "a:0", "a:65536", "a:x", "a:b:1", "::1", "::1:9090", "[a]:1", "[::1", "[::1]9090"),
        *("a/b", "a b", "u@a:1", "a?b", "a,b", "a:\u0661"),
    ],
)
def test_what_is_no_endpoint_is_refused_by_name(text):
    with pytest.raises(InvalidArgumentError, match=r"HOST:PORT|brackets|a port is"):
        Endpoint.parse(text, 9090)


@pytest.mark.parametrize("host", ["0.0.0.0", "0", "0.0", "0x0", "000.0.0.0", "::", "0::0", "::ffff:0.0.0.0"])
def test_every_form_of_every_address_is_a_wildcard(host):
    assert is_wildcard(host)


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "::1", "fe80::1%eth0", "localhost", "0.example.org", "10.0.0.0"]
)
def test_one_address_is_none(host):
    assert not is_wildcard(host)
