"""What ``headrace user`` does to a users file."""

from __future__ import annotations

import getpass
import sys
from collections.abc import Sequence
from contextlib import suppress

from headrace.cli.output import print_columns, print_json, progress
from headrace.errors import InvalidArgumentError
from headrace.runtime.entropy import SystemEntropy
from headrace.security.grants import Grant
from headrace.security.passwords import PASSWORD_BYTES_MAX, SALT_BYTES, Digest, check_new
from headrace.security.users_file import User, Users, check_name
from headrace.security.users_on_disk import OTHERS, change_users, read_users


def add_user(*, user: str, file: str, grants: Sequence[str], password_stdin: bool, replace: bool) -> None:
    check_name(user)
    parsed = _parse(grants)

    def check(users: Users) -> None:
        if user in users.by_name and not replace:
            raise InvalidArgumentError(f"{file}: user {user} exists already; add --replace")

    with suppress(FileNotFoundError):
        check(read_users(file)[0])  # before a person types a password
    password = _read_password() if password_stdin else _ask_password(user)
    added = User(user, Digest.of(password, SystemEntropy().token(SALT_BYTES)), parsed)

    def change(users: Users) -> Users:
        check(users)
        return users.with_user(added)

    change_users(file, change)
    _warn_of_others(file)


def list_users(*, file: str, as_json: bool) -> None:
    users, _, _ = read_users(file)
    if as_json:
        print_json([{"user": user.name, "grants": list(map(str, user.grants))} for user in users])
    else:
        print_columns(("user", "grants"), [(user.name, ";".join(map(str, user.grants))) for user in users])


def remove_user(*, user: str, file: str, if_exists: bool) -> None:
    def check(users: Users) -> bool:
        if user in users.by_name:
            return True
        if if_exists:
            return False
        raise InvalidArgumentError(f"{file}: user {user} does not exist")

    def change(users: Users) -> Users:
        check(users)
        return users.without(user)

    if check(read_users(file)[0]):  # a file that does not exist is not made
        change_users(file, change)
        _warn_of_others(file)


def _parse(texts: Sequence[str]) -> tuple[Grant, ...]:
    found = []
    for text in texts:
        try:
            found.append(Grant.parse(text))
        except InvalidArgumentError as error:
            raise InvalidArgumentError(f"--grant {text[:200]!r}: {error}") from None
    return tuple(found)


def _read_password() -> str:
    raw = sys.stdin.buffer.read(PASSWORD_BYTES_MAX + 2)  # what is longer is refused as it is
    try:
        return raw.removesuffix(b"\n").decode()
    except UnicodeDecodeError:
        raise InvalidArgumentError("the password is not UTF-8") from None


def _ask_password(user: str) -> str:
    if not sys.stdin.isatty():
        raise InvalidArgumentError("there is no terminal to ask for a password at; add --password-stdin")
    try:
        password = getpass.getpass(f"Password of {user}: ", sys.stderr)
        check_new(password)
        again = getpass.getpass("Once more: ", sys.stderr)
    except EOFError:
        raise InvalidArgumentError("no password was given, nothing was done") from None
    if password != again:
        raise InvalidArgumentError("the two passwords differ, nothing was done")
    return password


def _warn_of_others(path: str) -> None:
    _, _, mode = read_users(path)
    if mode & OTHERS:
        progress(f"warning: {path} has mode {mode:04o}, so others can read it: chmod 600 {path}")
