"""Who may do what with a token, and for how long."""

import pytest

from headrace.errors import PermissionDeniedError, TokenExpiredError
from headrace.security import token_checker
from headrace.security.permission import Permission
from headrace.security.token_checker import TokenChecker
from headrace.security.tokens import TokenKey, issue, stream_claim
from headrace.testing.clock import WALL_START_MS, ManualClock

KEY = TokenKey(b"k" * 64)
NOW_S = WALL_START_MS // 1000
READ, UPDATE = Permission.READ, Permission.READ_UPDATE
SEGMENT = "s/orders/0.#epoch.0"


def a_token(permission=UPDATE, *, stream="orders", now_s=NOW_S, lifetime_s=600, key=KEY):
    return issue(key, {stream_claim("s", stream): permission}, now_s, lifetime_s)


@pytest.fixture
def clock():
    return ManualClock()


@pytest.fixture
def checker(clock):
    return TokenChecker(KEY, clock, leeway_s=60)


def test_a_token_allows_what_it_claims(checker):
    for _ in range(2):  # the second time it is known
        assert checker.authorise(a_token(), SEGMENT, UPDATE) == 660_000
        assert checker.authorise(a_token(READ), SEGMENT, READ) == 660_000
        with pytest.raises(PermissionDeniedError, match="does not allow READ_UPDATE on 's/orders/0"):
            checker.authorise(a_token(READ), SEGMENT, UPDATE)
        with pytest.raises(PermissionDeniedError):
            checker.authorise(a_token(), "s/orders2/0.#epoch.0", READ)


def test_without_a_token_nothing_is_allowed(checker):
    with pytest.raises(PermissionDeniedError, match="required"):
        checker.authorise("", SEGMENT, READ)


def test_a_foreign_token_is_refused_and_not_called_expired(checker, clock):
    other = a_token(key=TokenKey(b"l" * 64))
    clock.advance(10**9)
    for _ in range(2):
        with pytest.raises(PermissionDeniedError):
            checker.authorise(other, SEGMENT, READ)


def test_a_token_ends_with_its_expiry_and_the_leeway(checker, clock):
    token = a_token()
    clock.advance(659_999)
    assert checker.authorise(token, SEGMENT, UPDATE) == 1
    clock.advance(1)
    for _ in range(2):
        with pytest.raises(TokenExpiredError):
            checker.authorise(token, SEGMENT, UPDATE)
    assert checker.authorise(a_token(now_s=NOW_S + 660), SEGMENT, UPDATE) == 660_000


@pytest.mark.parametrize("off_s", [-60, 60])
def test_a_clock_that_is_a_minute_off_shortens_no_token(checker, clock, off_s):
    token = a_token(now_s=NOW_S)
    clock.advance(off_s * 1000)
    for _ in range(599):
        clock.advance(1000)
        checker.authorise(token, SEGMENT, UPDATE)


def test_a_servers_own_token_never_ends(checker, clock):
    token = issue(KEY, {"*": UPDATE}, NOW_S, None)
    clock.advance(10**12)
    assert checker.authorise(token, "any/thing/0.#epoch.0", UPDATE) is None


@pytest.mark.slow
def test_more_tokens_than_are_remembered_are_all_accepted(monkeypatch):
    monkeypatch.setattr(token_checker, "KNOWN_MAX", 300)
    monkeypatch.setattr(token_checker, "KNOWN_CHARS_MAX", token_checker.KNOWN_CHARS_MAX // 10)
    checker = TokenChecker(KEY, ManualClock(), 0)
    for number in [*range(310), *range(20)]:
        checker.authorise(a_token(stream=f"t{number}"), f"s/t{number}/0.#epoch.0", UPDATE)
    claims = {stream_claim("s", "x" * 100 + str(number)): READ for number in range(60)}
    for number in range(50):  # ten kilobytes each
        checker.authorise(issue(KEY, claims, NOW_S + number, 600), "s/" + "x" * 100 + "0/0.#epoch.0", READ)
