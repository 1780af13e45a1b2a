"""The users of a file, while the file changes under them."""

import os
import re
from base64 import b64encode

import pytest

from headrace.errors import InvalidArgumentError, UnauthenticatedError
from headrace.runtime.entropy import SeededEntropy
from headrace.security.grants import parse_grants
from headrace.security.passwords import Digest
from headrace.security.permission import Permission
from headrace.security.users import UsersFile
from headrace.security.users_file import User, Users

SALT = bytes(range(8))
ROOT = "prn::/"


def user(name, password="secret", grants="prn::*,READ"):
    return User(name, Digest.of(password, SALT, 10), parse_grants(grants))


def write(path, *users):
    known = Users()
    for each in users:
        known = known.with_user(each)
    temporary = path.with_suffix(".new")
    temporary.write_bytes(known.render())
    temporary.chmod(0o600)
    temporary.replace(path)


def token(name, password="secret"):
    return b64encode(f"{name}:{password}".encode()).decode()


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "users"
    write(path, user("ada"), user("bob", "p:w", "prn::/,READ_UPDATE"))
    return path


def open_users(path):
    return UsersFile(str(path), SeededEntropy(1))


def refused(users, given):
    with pytest.raises(UnauthenticatedError) as error:
        users.authenticate(given)
    return str(error.value)


@pytest.mark.parametrize("make", [os.mkdir, os.mkfifo])
def test_what_is_no_file_is_named(tmp_path, make):
    path = tmp_path / "thing"
    make(path)
    with pytest.raises(InvalidArgumentError, match=re.escape(f"{path}: it is no file")):
        open_users(path)


def test_users_are_known_by_their_passwords(path):
    users = open_users(path)
    assert users.method == "Basic"
    assert users.authenticate(token("ada")) == "ada"
    assert users.authenticate(token("bob", "p:w")) == "bob"
    assert users.permission("bob", ROOT) is Permission.READ_UPDATE
    assert users.permission("bob", "prn::/scope:s") is Permission.NONE
    assert users.permission("nobody", ROOT) is Permission.NONE


@pytest.mark.parametrize(
    "given", [token("ada", "wrong"), token("nobody"), token("ada", ""), token("", "secret")]
)
def test_wrong_names_and_passwords_look_alike(path, given):
    assert refused(open_users(path), given) == "wrong user name or password"


@pytest.mark.parametrize("given", ["%%%", "YWRh", "YWRhOnNlY3JldA", b64encode(b"\xff:\xff").decode()])
def test_what_is_no_basic_token_is_refused_and_not_shown(path, given):
    assert refused(open_users(path), given) == "the credentials are no base64 of user:password in UTF-8"


def test_a_stranger_is_not_let_in_by_the_password_of_another(path):
    write(path, user("ada"))
    assert refused(open_users(path), token("eve", "secret")) == "wrong user name or password"


@pytest.mark.slow
def test_a_file_without_users_lets_nobody_in(path):
    path.write_text("# none yet\n")
    assert refused(open_users(path), token("ada")) == "wrong user name or password"


def test_changes_are_noticed(path):
    users = open_users(path)
    before = users.revision()
    assert users.revision() == before
    write(path, user("ada", "other", "prn::*,NONE"), user("eve"))
    assert users.authenticate(token("eve")) == "eve"
    assert users.revision() != before
    assert refused(users, token("ada")) == "wrong user name or password"
    assert users.permission("ada", ROOT) is Permission.NONE
    assert users.permission("bob", ROOT) is Permission.NONE


def test_half_a_file_neither_locks_out_nor_lets_in_and_is_logged_once(path, caplog):
    users = open_users(path)
    before = users.revision()
    whole = path.read_bytes()
    path.write_bytes(whole[: whole.index(b"bob:") + 50])
    for _ in range(3):
        assert users.revision() == before
        assert users.authenticate(token("ada")) == "ada"
    problems = [record for record in caplog.records if record.levelname == "ERROR"]
    assert len(problems) == 1
    shown = " ".join([problems[0].getMessage(), repr(vars(problems[0]))])
    assert f"{path}: line 2, user 'bob': " in shown
    assert Digest.of("secret", SALT, 10).secret_text()[20:60] not in shown
    path.write_bytes(whole.replace(b"bob:", b"bib:"))
    assert users.authenticate(token("bib", "p:w")) == "bib"


def test_a_file_that_is_gone_leaves_the_users_and_is_read_once_it_is_there(path, caplog):
    users = open_users(path)
    path.unlink()
    for _ in range(3):
        assert users.authenticate(token("ada")) == "ada"
    assert len(caplog.records) == 1
    write(path, user("eve"))
    assert users.authenticate(token("eve")) == "eve"
    refused(users, token("ada"))


def test_a_server_does_not_start_with_a_damaged_or_absent_file(path):
    path.write_text("ada:hunter2:prn::*,READ\n")
    with pytest.raises(InvalidArgumentError, match="line 1, user 'ada'") as error:
        open_users(path)
    assert str(path) in str(error.value)
    assert "hunter2" not in str(error.value)
    path.unlink()
    with pytest.raises(InvalidArgumentError, match=str(path)):
        open_users(path)


@pytest.mark.parametrize(("mode", "warnings"), [(0o600, 0), (0o400, 0), (0o640, 1), (0o604, 1)])
def test_a_file_that_others_can_read_is_warned_of(path, caplog, mode, warnings):
    path.chmod(mode)
    open_users(path)
    assert [record.levelname for record in caplog.records] == ["WARNING"] * warnings


def test_nothing_secret_is_printed(path):
    users = open_users(path)
    assert repr(users) == f"UsersFile({str(path)!r}, 2 users)"
