"""Digests that the protocol's servers made, ones of ours that they have checked, and a whole file."""

import json
from pathlib import Path

import pytest

from headrace.security.passwords import ITERATIONS, Digest
from headrace.security.users_file import User, Users

GOLDEN = Path(__file__).parent / "users_file" / "v1"
THEIRS, OURS = (json.loads((GOLDEN / f"digests_{who}.json").read_text()) for who in ("theirs", "ours"))
"""Made by `StrongPasswordProcessor` of version 0.13; checked by it, with a wrong password each as well."""


@pytest.mark.parametrize("known", [*THEIRS, *OURS], ids=lambda known: known["digest"][-8:])
def test_a_password_is_known_by_its_digest(known):
    digest = Digest.parse(known["digest"])
    assert digest.matches(known["password"])
    assert not digest.matches(known["password"] + "x")
    assert digest.secret_text() == known["digest"]


@pytest.mark.parametrize("known", OURS, ids=lambda known: known["digest"][-8:])
def test_our_digests_have_the_text_they_always_had(known):
    digest = Digest.parse(known["digest"])
    made = Digest.of(known["password"], digest.salt, digest.iterations)
    assert made.secret_text() == known["digest"]


def test_digests_of_today_are_pinned():
    assert ITERATIONS in {Digest.parse(known["digest"]).iterations for known in OURS}


def test_a_file_is_read_and_stays_as_it_was_where_nobody_changes_it():
    data = (GOLDEN / "users").read_bytes()
    users = Users.parse(data)
    assert {user.name: ";".join(map(str, user.grants)) for user in users} == {
        "admin": "prn::*,READ_UPDATE",
        "old": "prn::*,READ_UPDATE",
        "ada lovelace": "prn::/,READ;prn::/scope:sales,READ;prn::/scope:sales/stream:secret,NONE;"
        "prn::/scope:sales/*,READ_UPDATE",
        "nobody": "",
        "gone": "",
    }
    assert users.by_name["admin"].digest.matches("1111_aaaa")
    assert users.render() == data
    admin = users.by_name["admin"]
    without_semicolon = data.replace(b"READ_UPDATE;\n", b"READ_UPDATE\n")
    assert users.with_user(User("admin", admin.digest, admin.grants)).render() == without_semicolon
    assert users.without("gone").render() == b"\n".join(data.split(b"\n")[:-2]) + b"\n"
