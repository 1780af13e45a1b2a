"""Which grant decides, and what is none."""

import pytest

from headrace.errors import InvalidArgumentError
from headrace.security.grants import Grant, parse_grants, permission_of
from headrace.security.permission import Permission
from headrace.security.resources import ROOT, group_resource, scope_resource, stream_resource

SALES = parse_grants(
    "prn::/scope:sales,READ;prn::/scope:sales/stream:pay,NONE;prn::/scope:sales/*,READ_UPDATE"
)


@pytest.mark.parametrize(
    ("resource", "expected"),
    [
        (ROOT, Permission.NONE),
        (scope_resource("sales"), Permission.READ),
        (scope_resource("sales2"), Permission.NONE),
        (stream_resource("sales", "pay"), Permission.NONE),
        (stream_resource("sales", "orders"), Permission.READ_UPDATE),
        (group_resource("sales", "billing"), Permission.READ_UPDATE),
        (stream_resource("sales2", "orders"), Permission.NONE),
    ],
)
def test_the_first_grant_that_matches_decides(resource, expected):
    assert permission_of(SALES, resource) is expected


def test_no_grants_allow_nothing():
    assert permission_of((), ROOT) is Permission.NONE
    assert parse_grants("") == parse_grants("  ") == ()


@pytest.mark.parametrize(
    ("pattern", "resource", "matches"),
    [
        ("prn::/scope:a*/stream:*", "prn::/scope:abc/stream:", True),
        ("prn::*a*a", "prn::a", False),
        ("prn::*a*a", "prn::aa", True),
        ("prn::/scope:s.s", "prn::/scope:sxs", False),
        ("prn::/scope:s", "prn::/scope:s\n", False),
        ("prn::/scope:**", "prn::/scope:", True),
    ],
)
def test_a_pattern_matches_the_whole_resource(pattern, resource, matches):
    assert Grant(pattern, Permission.READ).matches(resource) is matches


def test_the_old_word_for_everything_is_read():
    assert parse_grants("*,READ_UPDATE;") == parse_grants("prn::*,READ_UPDATE")


@pytest.mark.parametrize(
    "text",
    [
        ";",
        "prn::*",
        "prn::*,",
        "prn::*,read",
        "prn::*,READ,READ",
        "**,READ",
        "scope,READ",
        "prn::,READ",
        "prn::a\n,READ" + "x",
        "prn::é,READ",
        "prn::" + "a" * 1020 + ",READ",
        "prn::*,READ;;prn::*,READ",
        "prn::*,READ;" * 1001,
    ],
)
def test_what_is_no_grant_is_refused_and_not_shown(text):
    with pytest.raises(InvalidArgumentError) as refused:
        parse_grants(text)
    assert len(str(refused.value)) < 200
