"""Grants against regular expressions; any text as a users file."""

import re

from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import InvalidArgumentError
from headrace.security.grants import Grant, parse_grants, permission_of
from headrace.security.passwords import Digest
from headrace.security.permission import Permission
from headrace.security.users_file import User, Users

DIGEST = Digest.of("secret", bytes(8), 1)
TEXT = DIGEST.secret_text()

PATTERNS = st.text("ab/*.", max_size=8).filter(bool).map("prn::{}".format)
RESOURCES = st.text("ab/*.", max_size=10).map("prn::{}".format)
GRANTS = st.lists(st.builds(Grant, PATTERNS, st.sampled_from(Permission)), max_size=5).map(tuple)
NAMES = st.text("aäÄ€𝄞#@-,;", min_size=1, max_size=3).filter(lambda name: name[0] != "#")
PIECES = st.sampled_from(
    ["ada", ":", TEXT, TEXT[:-1], "\n", "\r", "#", " ", "prn::*", ",", ";", "READ", "*", "é", "\x85"]
)
FILES = st.lists(PIECES | st.text(max_size=5), max_size=20).map("".join)


def decided(grants, resource):
    for grant in grants:
        pattern = ".*".join(map(re.escape, grant.pattern.split("*")))
        if re.fullmatch(pattern, resource, re.DOTALL):
            return grant.permission
    return Permission.NONE


@given(GRANTS, RESOURCES)
def test_patterns_are_those_of_a_regular_expression(grants, resource):
    assert permission_of(grants, resource) is decided(grants, resource)


@given(GRANTS)
def test_grants_are_read_as_they_are_written(grants):
    text = ";".join(map(str, grants))
    assert parse_grants(text) == grants
    assert not grants or parse_grants(text + ";") == grants


def parsed(text):
    """Return the users, or the error."""
    try:
        return Users.parse(text.encode()), ""
    except InvalidArgumentError as error:
        return None, str(error)


@given(FILES)
def test_any_text_is_a_users_file_or_is_refused_without_showing_a_digest(text):
    users, error = parsed(text)
    if users is None:
        assert re.match(r"line \d+", error)
        assert TEXT[:-1] not in error
        return
    assert users.render().removesuffix(b"\n") == text.encode().removesuffix(b"\n")
    again = Users.parse(users.render())
    assert again.by_name == users.by_name
    assert again.render() == users.render()


@given(st.lists(st.tuples(NAMES, st.none() | GRANTS), max_size=8))
def test_a_file_holds_what_was_added_and_not_removed(changes):
    users, expected = Users.parse(b"# comment\n"), {}
    for name, grants in changes:
        if grants is None:
            users = users.without(name)
            expected.pop(name, None)
        else:
            users = users.with_user(User(name, DIGEST, grants))
            expected[name] = grants
        users = Users.parse(users.render())
        assert {user.name: user.grants for user in users} == expected
        assert list(users.by_name) == list(expected)
        assert users.render().startswith(b"# comment\n")
