"""Lines of a users file: what is read, refused and changed."""

import pytest

from headrace.errors import InvalidArgumentError
from headrace.security.grants import parse_grants
from headrace.security.passwords import Digest
from headrace.security.users_file import FILE_BYTES_MAX, USERS_MAX, User, Users, check_name

DIGEST = Digest.of("secret", bytes(8), 1)
TEXT = DIGEST.secret_text()


def test_users_keep_their_order_and_their_lines():
    users = Users.parse(f"# b\r\nb:{TEXT}:*,READ;\r\n\na:{TEXT}".encode())
    assert list(users.by_name) == ["b", "a"]
    assert users.render() == f"# b\r\nb:{TEXT}:*,READ;\r\n\na:{TEXT}\n".encode()


def test_a_user_is_replaced_in_its_place_and_added_at_the_end():
    users = Users.parse(f"#1\na:{TEXT}\n#2\nb:{TEXT}\n".encode())
    grants = parse_grants("prn::/,READ;prn::*,NONE")
    changed = users.with_user(User("a", DIGEST, grants)).with_user(User("c", DIGEST))
    expected = f"#1\na:{TEXT}:prn::/,READ;prn::*,NONE\n#2\nb:{TEXT}\nc:{TEXT}:\n"
    assert changed.render().decode() == expected
    assert changed.without("b").without("nobody").render().decode() == expected.replace(f"b:{TEXT}\n", "")


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("nonsense", ""),
        (f":{TEXT}:prn::*,READ", ""),
        (f"{TEXT}:prn::*,READ", ""),
        (f"ada:{TEXT}0:prn::*,READ", ", user 'ada'"),
        ("ada:hunter2:prn::*,READ", ", user 'ada'"),
        (f"ada:{TEXT}:prn::*", ", user 'ada'"),
        (f"ada:{TEXT}:hunter2,READ", ", user 'ada'"),
        (f"first:{TEXT}:", ", user 'first'"),
        (f"a\x1bda:{TEXT}:", ""),
        (f" ada:{TEXT}:", ""),
        (f"{'a' * 256}:{TEXT}:", ""),
    ],
)
def test_an_error_says_which_line_it_was_and_nothing_secret(line, shown):
    with pytest.raises(InvalidArgumentError) as refused:
        Users.parse(f"first:{TEXT}:\n# comment\n{line}\n".encode())
    assert str(refused.value).startswith(f"line 3{shown}: ")
    assert TEXT not in str(refused.value)
    assert "hunter2" not in str(refused.value)


def test_bytes_that_are_no_text_are_refused_by_line():
    with pytest.raises(InvalidArgumentError, match="line 2: it is not UTF-8"):
        Users.parse(b"#\n\xff\n")


def test_a_file_is_bounded_in_bytes_and_users():
    with pytest.raises(InvalidArgumentError, match="bytes"):
        Users.parse(b"#" * (FILE_BYTES_MAX + 1))
    with pytest.raises(InvalidArgumentError, match="bytes"):
        Users.parse(b"#" * FILE_BYTES_MAX).render()
    short = Digest(1, bytes(8), bytes(20)).secret_text()
    many = Users.parse("".join(f"{n}:{short}\n" for n in range(7_000)).encode())
    assert len(many.by_name) == 7_000
    assert USERS_MAX == 10_000


def test_nothing_secret_is_printed():
    users = Users.parse(f"ada:{TEXT}:prn::*,READ".encode())
    shown = f"{users!r} {users.by_name['ada']!r} {list(users)}"
    assert TEXT not in shown
    assert DIGEST.hash.hex() not in shown
    assert "ada" in shown


@pytest.mark.parametrize("name", ["", " a", "a ", "a:b", "#a", "a\n", "a\u200b", "a" * 256, "\udc80"])
def test_a_name_that_a_file_cannot_hold_is_refused(name):
    with pytest.raises(InvalidArgumentError):
        check_name(name)


@pytest.mark.parametrize("name", ["a", "Ada Lovelace", "ärger@example.com", "a" * 255, "a#b,c;d"])
def test_other_names_are_fine(name):
    check_name(name)
