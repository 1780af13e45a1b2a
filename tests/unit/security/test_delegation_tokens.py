"""What tokens say, and what is refused as one."""

import base64
import hashlib
import hmac
import json
import string

import jwt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import InvalidArgumentError, PermissionDeniedError
from headrace.security.permission import Permission
from headrace.security.tokens import (
    TOKEN_CHARS_MAX,
    Allowance,
    Claim,
    TokenKey,
    issue,
    read,
    stream_claim,
    table_claim,
)

KEY = TokenKey(b"k" * 64)
ORDERS = {stream_claim("s", "orders"): Permission.READ_UPDATE}
NOW_S = 1_767_225_600
READ, UPDATE = Permission.READ, Permission.READ_UPDATE

NAME_CHARS = string.ascii_letters + string.digits + ".-"
names = st.text(NAME_CHARS + "_", min_size=1, max_size=40)
internal_names = st.builds(str.__add__, st.sampled_from(["", "_", "_RG", "_MARK"]), names)


def b64(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def signed(payload, header=None, secret=KEY.secret, digest=hashlib.sha512):
    """A token by hand, so that nothing of the product vouches for itself."""
    head = {"alg": "HS512", "typ": "JWT"} if header is None else header
    text = f"{b64(json.dumps(head).encode())}.{b64(json.dumps(payload).encode())}"
    return f"{text}.{b64(hmac.new(secret, text.encode(), digest).digest())}"


def claims(**other):
    return {
        "sub": "segmentstoreresource",
        "aud": "segmentstore",
        "iat": NOW_S,
        "exp": NOW_S + 600,
        "prn::/scope:s/stream:orders": "READ",
    } | other


def test_a_token_has_the_claims_of_the_protocol():
    token = issue(KEY, ORDERS, NOW_S, 600)
    header, payload, _ = (base64.urlsafe_b64decode(part + "==") for part in token.split("."))
    assert json.loads(header)["alg"] == "HS512"
    assert json.loads(payload) == {
        "sub": "segmentstoreresource",
        "aud": "segmentstore",
        "iat": NOW_S,
        "exp": NOW_S + 600,
        "prn::/scope:s/stream:orders": "READ_UPDATE",
    }
    assert read(KEY, token) == Allowance((Claim("s/orders", "s/orders/", UPDATE),), NOW_S + 600)


def test_a_token_made_by_hand_is_read():
    assert read(KEY, signed(claims())) == Allowance((Claim("s/orders", "s/orders/", READ),), NOW_S + 600)
    assert read(KEY, signed(claims(aud=["x", "segmentstore"], exp=NOW_S + 0.5))).expires_s == NOW_S + 0.5


def test_a_servers_own_token_allows_everything_for_ever():
    allowance = read(KEY, issue(KEY, {"*": UPDATE}, NOW_S, None))
    assert allowance.expires_s is None
    assert allowance.allows("any/thing/0.#epoch.0", UPDATE)
    assert allowance.allows("*thing", UPDATE)


@given(internal_names, internal_names, names, st.integers(0, 2**33), st.integers(1, 86_400))
def test_clients_that_decode_with_the_common_alphabet_can_decode_every_token(
    scope, stream, table, now_s, lifetime_s
):
    """They also look for a number behind ``"exp":``."""
    resources = {stream_claim(scope, stream): UPDATE, table_claim(scope, table): READ}
    middle = issue(KEY, resources, now_s, lifetime_s).split(".")[1]
    assert not set(middle) & set("-_=")
    payload = base64.b64decode(middle + "=" * (-len(middle) % 4), validate=True).decode("ascii")
    assert f'"exp":{now_s + lifetime_s}' in payload
    assert payload.count('"exp":') == 1


@pytest.mark.slow
def test_no_byte_that_a_payload_can_have_ends_in_a_character_of_the_other_alphabet():
    """So the example above cannot be unlucky: ``-`` and ``_`` stand for six set bits, but for the last."""
    possible = (NAME_CHARS + "_" + '{}":,/*').encode()
    for first in possible:
        for second in possible:
            for third in possible:
                bits = first << 16 | second << 8 | third
                assert all((bits >> shift) & 63 < 62 for shift in (0, 6, 12, 18))


@pytest.mark.parametrize(
    "bad", ["", "a/b", "a b", "a\n", "ä", "a~", "a?", "a>b", "a*", "a:b", "é", "x" * 300]
)
def test_no_claim_has_an_illegal_name(bad):
    for make in (
        lambda: stream_claim(bad, "t"),
        lambda: stream_claim("s", bad),
        lambda: table_claim(bad, "t"),
        lambda: table_claim("s", bad),
        lambda: stream_claim("s", bad + "_kvtable"),
    ):
        with pytest.raises(InvalidArgumentError):
            make()


@pytest.mark.parametrize(
    ("resource", "covered", "not_covered"),
    [
        (
            stream_claim("s", "orders"),
            ["s/orders", "s/orders/0.#epoch.0", f"s/orders/0.#epoch.0#transaction.{1:032x}"],
            [
                "s/orders2/0.#epoch.0",
                "s/order/0.#epoch.0",
                "s/orders_kvtable/0.#epoch.0",
                "s",
                "",
                "t/orders/0",
            ],
        ),
        (stream_claim("s", "_RGg"), ["s/_RGg/0.#epoch.0"], ["s/g/0.#epoch.0"]),
        (stream_claim("s", "k_kvtable"), ["s/k_kvtable/0.#epoch.0"], ["s/k/0.#epoch.0"]),
        (table_claim("s", "k"), ["s/k_kvtable/0.#epoch.0"], ["s/k/0.#epoch.0", "s/k_kvtable2/0.#epoch.0"]),
        ("prn::/scope:s", ["s/orders/0.#epoch.0"], ["s2/orders/0.#epoch.0"]),
        ("prn::/scope:s/", ["s/orders/0.#epoch.0"], ["s2/orders/0.#epoch.0", "", "s"]),
        ("*", ["s/orders/0.#epoch.0", "x"], []),
        ("prn::", [], ["s/orders/0.#epoch.0", "x"]),
    ],
)
def test_a_claim_is_about_segments_below_its_resource(resource, covered, not_covered):
    allowance = read(KEY, signed({"sub": "segmentstoreresource", "aud": "segmentstore", resource: "READ"}))
    assert [name for name in covered if not allowance.allows(name, READ)] == []
    assert [name for name in not_covered if allowance.allows(name, READ)] == []
    assert not any(allowance.allows(name, UPDATE) for name in covered)


def test_what_else_a_token_claims_allows_nothing():
    token = signed(
        claims(**{"s/a": "NONE", "s/b": "WRITE", "s/c": 2, "s/d": ["READ"], "s/e": None, "s/f": "read"})
    )
    assert read(KEY, token).claims == (Claim("s/orders", "s/orders/", READ),)


def test_a_token_from_the_future_is_none_that_is_refused():
    """Clocks differ; what counts is the expiry."""
    read(KEY, signed(claims(iat=NOW_S + 10**9, nbf=NOW_S + 10**9)))


def unsecured(payload):
    return f"{b64(json.dumps({'alg': 'none', 'typ': 'JWT'}).encode())}.{b64(json.dumps(payload).encode())}."


@pytest.mark.parametrize(
    "forged",
    [
        "",
        "no token",
        "a.b.c",
        "..",
        "\ud800.x.y",
        "x" * (TOKEN_CHARS_MAX + 1),
        signed(claims(), secret=b"l" * 64),
        unsecured(claims()),
        unsecured(claims()) + signed(claims()).split(".")[2],
        signed(claims(), {"alg": "none"}),
        signed(claims(), {"alg": "HS256"}, digest=hashlib.sha256),
        signed(claims(), {"alg": "RS256"}),
        signed(claims(), {"alg": "hs512"}),
        signed(claims(), {}),
        signed(claims(), {"alg": "HS512", "crit": ["x"], "x": 1}),
        signed(claims(), {"alg": "HS512", "b64": False, "crit": ["b64"]}),
        signed(claims(aud="controller")),
        signed(claims(aud=["a", "b"])),
        signed(claims(aud=None)),
        signed(claims(aud={"segmentstore": 1})),
        signed(claims(sub="somebody")),
        signed(claims(sub=["segmentstoreresource"])),
        signed({name: value for name, value in claims().items() if name != "sub"}),
        signed({name: value for name, value in claims().items() if name != "aud"}),
        signed(claims(exp="never")),
        signed(claims(exp=True)),
        signed(claims(exp=[1])),
        signed(claims(exp=float("inf"))),
        signed(claims(exp=float("nan"))),
        signed(["segmentstore"]),
        signed("segmentstore"),
        signed(None),
    ],
)
def test_anything_else_is_refused(forged):
    with pytest.raises(PermissionDeniedError) as refused:
        read(KEY, forged)
    assert not forged or forged[:40] not in str(refused.value)


def test_a_token_of_another_library_with_another_algorithm_is_refused():
    for algorithm in ("HS256", "HS384"):
        with pytest.raises(PermissionDeniedError):
            read(KEY, jwt.encode(claims(), KEY.secret, algorithm=algorithm))


@given(st.data())
def test_no_token_survives_a_change_of_one_character(data):
    token = issue(KEY, ORDERS, NOW_S, 600)
    at = data.draw(st.integers(0, len(token) - 1))
    char = data.draw(st.sampled_from(NAME_CHARS + "_.").filter(lambda char: char != token[at]))
    changed = token[:at] + char + token[at + 1 :]
    try:
        allowance = read(KEY, changed)
    except PermissionDeniedError:
        return
    # The last character of a part may have bits that stand for nothing.
    assert allowance == read(KEY, token)
    assert at == len(token) - 1


@given(
    st.text()
    | st.binary().map(lambda raw: raw.decode("latin-1"))
    | st.lists(st.binary(max_size=60).map(b64), max_size=5).map(".".join)
    | st.recursive(
        st.none() | st.booleans() | st.floats() | st.integers() | st.text(),
        lambda inner: (
            st.lists(inner)
            | st.dictionaries(st.sampled_from(["sub", "aud", "exp", "iat"]) | st.text(), inner)
        ),
    ).map(lambda payload: signed(payload, secret=b"another key" * 7))
)
def test_garbage_is_refused_and_nothing_else(garbage):
    with pytest.raises(PermissionDeniedError):
        read(KEY, garbage)


json_values = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)


@pytest.mark.slow
@given(
    st.dictionaries(
        st.sampled_from(["sub", "aud", "exp", "iat", "nbf", "jti", "iss"]) | st.text(), json_values
    ),
    st.dictionaries(st.sampled_from(["alg", "crit", "b64", "kid", "typ"]), json_values),
)
def test_even_a_signed_oddity_is_read_or_refused(payload, header):
    for text in (signed(payload), signed(claims() | payload), signed(claims(), {"alg": "HS512"} | header)):
        try:
            read(KEY, text)
        except PermissionDeniedError:
            continue


@given(
    st.dictionaries(st.tuples(names, internal_names), st.sampled_from([READ, UPDATE]), max_size=3),
    names,
    internal_names,
    st.sampled_from(["", "/0.#epoch.0", "2/0.#epoch.0", "_kvtable/0.#epoch.0", "/0.#epoch.0#transient.x"]),
    st.data(),
)
def test_a_token_never_allows_more_than_it_claims(granted, scope, stream, rest, data):
    if granted and data.draw(st.booleans()):
        scope, stream = data.draw(st.sampled_from(sorted(granted)))
    allowance = read(
        KEY, issue(KEY, {stream_claim(*name): each for name, each in granted.items()}, NOW_S, 600)
    )
    segment = f"{scope}/{stream}{rest}"
    own = granted.get(tuple(segment.split("/")[:2]), Permission.NONE)
    for permission in (READ, UPDATE):
        assert allowance.allows(segment, permission) == (own >= permission)


def test_a_key_is_long_and_secret():
    with pytest.raises(InvalidArgumentError, match="too short: at least 32"):
        TokenKey(b"x" * 31)
    assert "kkk" not in repr(KEY)
    assert "kkk" not in f"{[KEY]} {KEY}"
