"""Which requests are answered, by what browsers and programs say of them."""

import pytest

from headrace.web.origin_rules import (
    BodyNotJsonError,
    ForeignHostError,
    ForeignPageError,
    OriginRules,
)

RULES = OriginRules(["Stream-1.example.org", "bücher.example", "::1", "x" * 64])
CHANGES = ("POST", "PUT", "DELETE", "PATCH")
HOST = {"host": "localhost:10080"}


def refused(verb, headers, path="/v1/scopes"):
    pairs = headers.items() if isinstance(headers, dict) else headers
    error = RULES.find_refusal(
        verb, path, [(name.encode(), value.encode("latin-1")) for name, value in pairs]
    )
    return None if error is None else type(error)


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "127.0.0.1:10080",
        "10.42.0.7:10080",
        "[::1]:10080",
        "[::1]",
        "[fe80::1%eth0]:80",
        "localhost",
        "LocalHost:10080",
        "localhost.",
        "demo.localhost:10080",
        "stream-1.example.org",
        "STREAM-1.example.org.:443",
        "xn--bcher-kva.example",
        "",
    ],
)
def test_addresses_localhost_and_names_of_the_server_are_answered(host):
    for verb in ("GET", "HEAD", "OPTIONS", *CHANGES):
        assert refused(verb, {"host": host}) is None
        assert refused(verb, {}) is None


@pytest.mark.parametrize(
    "host",
    [
        "attacker.example",
        "attacker.example:10080",
        "stream-1.example.org.attacker.example",
        "evil-stream-1.example.org",
        "localhost.attacker.example",
        "127.0.0.1.attacker.example",
        "notlocalhost",
        "[attacker.example]",
        "127.0.0.1, attacker.example",
        "user@127.0.0.1",
        "127.0.0.1:port",
        "[::1",
        "\xe4ndern.example",
        "a" * 10_000,
    ],
)
def test_a_request_for_another_name_is_refused_whatever_it_asks(host):
    for verb in ("GET", "HEAD", "OPTIONS", *CHANGES):
        for path in ("/v1/scopes", "/metrics", "/docs", "/health", "/nothing", "/live/x"):
            assert refused(verb, {"host": host}, path) is ForeignHostError
    assert refused("GET", [("host", "localhost"), ("host", host)]) is ForeignHostError


def test_probes_are_answered_under_every_name_and_change_nothing_for_pages():
    for path in ("/live", "/ready", "/ping", "/live/"):
        assert refused("GET", {"host": "headrace.streams.svc"}, path) is None
        assert (
            refused("POST", {"host": "x.example", "sec-fetch-site": "cross-site"}, path) is ForeignPageError
        )


def test_a_refused_name_is_shown_with_what_to_do_about_it():
    sentence = str(RULES.find_refusal("GET", "/metrics", [(b"host", b"prometheus-sees-me:10080")]))
    assert "'prometheus-sees-me:10080'" in sentence
    assert "rest_hosts" in sentence
    assert len(str(RULES.find_refusal("GET", "/metrics", [(b"host", b"a" * 10_000)]))) < 400


@pytest.mark.parametrize(
    ("headers", "passes"),
    [
        ({}, True),
        ({"sec-fetch-site": "same-origin"}, True),
        ({"sec-fetch-site": "same-origin", "origin": "https://behind-a-proxy.example"}, True),
        ({"sec-fetch-site": "none"}, True),
        ({"sec-fetch-site": "cross-site"}, False),
        ({"sec-fetch-site": "same-site"}, False),
        ({"sec-fetch-site": "cross-site", "origin": "http://localhost:10080"}, False),
        ({"sec-fetch-site": "of-tomorrow"}, False),
        ({"sec-fetch-site": ""}, False),
        ({"origin": "http://localhost:10080"}, True),
        ({"origin": "https://LOCALHOST:10080"}, True),
        ({"origin": "http://localhost:3000"}, False),
        ({"origin": "http://localhost"}, False),
        ({"origin": "http://attacker.example"}, False),
        ({"origin": "null"}, False),
        ({"origin": ""}, False),
        ({"origin": "file://localhost:10080"}, False),
        ({"origin": "http://localhost:10080.attacker.example"}, False),
        ({"origin": "http://http://localhost:10080"}, False),
    ],
)
def test_only_pages_of_the_same_origin_may_change_something(headers, passes):
    for verb in CHANGES:
        assert refused(verb, HOST | headers) is (None if passes else ForeignPageError)
    for verb in ("GET", "HEAD", "OPTIONS"):
        assert refused(verb, HOST | headers) is None


def test_headers_that_come_twice_count_as_the_worse_one():
    twice = [("host", "localhost"), ("sec-fetch-site", "none"), ("sec-fetch-site", "cross-site")]
    assert refused("POST", twice) is ForeignPageError
    twice = [("host", "localhost"), ("origin", "http://localhost"), ("origin", "http://a.example")]
    assert refused("POST", twice) is ForeignPageError
    assert refused("POST", [("origin", "http://a.example")]) is ForeignPageError


@pytest.mark.parametrize(
    ("kind", "passes"),
    [
        ("application/json", True),
        ("application/json; charset=utf-8", True),
        ("Application/JSON;charset=UTF-8", True),
        ("application/json ", True),
        ("text/plain", False),
        ("text/plain;charset=UTF-8", False),
        ("application/x-www-form-urlencoded", False),
        ("multipart/form-data; boundary=x", False),
        ("text/plain; application/json", False),
        ("application/jsonp", False),
        ("text/plain, application/json", False),
        ("", False),
        (None, False),
    ],
)
def test_a_body_has_to_say_that_it_is_json(kind, passes):
    given = {} if kind is None else {"content-type": kind}
    wanted = None if passes else BodyNotJsonError
    for verb in CHANGES:
        assert refused(verb, HOST | given | {"content-length": "17"}) is wanted
        assert refused(verb, HOST | given | {"transfer-encoding": "chunked"}) is wanted
        assert refused(verb, HOST | given) is None
        assert refused(verb, HOST | given | {"content-length": "0"}) is None
    assert refused("GET", HOST | given | {"content-length": "17"}) is None


def test_a_refused_body_says_which_header_it_needs():
    headers = [(b"content-length", b"2"), (b"content-type", b"text/plain")]
    sentence = str(RULES.find_refusal("POST", "/v1/scopes", headers))
    assert "Content-Type: application/json" in sentence
    assert "'text/plain'" in sentence
