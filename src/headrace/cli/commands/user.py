"""``headrace user``: who may use a server that is started with ``--users``."""

from __future__ import annotations

import argparse
import getpass
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

from headrace.cli.output import print_columns, print_json, progress
from headrace.cli.verbs import Subparsers, add_noun, add_verb
from headrace.errors import InvalidArgumentError

if TYPE_CHECKING:  # imported by the verb when it is executed: help is fast
    from headrace.security.grants import Grant


def register(nouns: Subparsers[argparse.ArgumentParser]) -> None:
    verbs = add_noun(nouns, "user", "Add, list and remove the users of a users file.")
    add = add_verb(
        verbs,
        "add",
        add_user,
        "Add a user with a password and grants; a running server notices it within a second.",
        """
        headrace user add admin --file users --grant 'prn::*,READ_UPDATE'
        headrace user add ada --file users --grant 'prn::/scope:sales*,READ' --password-stdin < password
        """,
        connects=False,
    )
    _add_user_arguments(add)
    add.add_argument(
        "--grant",
        metavar="PATTERN,PERMISSION",
        action="append",
        required=True,
        help="what the user may do: READ, READ_UPDATE or NONE for resources as prn::/scope:S/stream:T, "
        "* stands for any characters; the first that matches decides; repeatable",
    )
    add.add_argument(
        "--password-stdin", action="store_true", help="read the password from stdin instead of asking"
    )
    add.add_argument("--replace", action="store_true", help="with new password and grants if it exists")

    listing = add_verb(
        verbs,
        "list",
        list_users,
        "List users and their grants.",
        "headrace user list --file users",
        connects=False,
    )
    _add_file_argument(listing)
    listing.add_argument("--json", action="store_true", help="answer in JSON")

    remove = add_verb(
        verbs,
        "remove",
        remove_user,
        "Remove a user; a running server notices it within a second.",
        "headrace user remove ada --file users",
        connects=False,
    )
    _add_user_arguments(remove)
    remove.add_argument("--if-exists", action="store_true", help="succeed if there is none")


def _add_user_arguments(verb: argparse.ArgumentParser) -> None:
    verb.add_argument("user", metavar="NAME")
    _add_file_argument(verb)


def _add_file_argument(verb: argparse.ArgumentParser) -> None:
    verb.add_argument("--file", metavar="FILE", required=True, help="the users file")


def add_user(chosen: argparse.Namespace) -> None:
    from headrace.runtime.entropy import SystemEntropy
    from headrace.security.passwords import SALT_BYTES, Digest
    from headrace.security.users_file import User, Users, check_name
    from headrace.security.users_on_disk import change_users, read_users

    check_name(chosen.user)
    grants = _grants(chosen.grant)

    def check(users: Users) -> None:
        if chosen.user in users.by_name and not chosen.replace:
            raise InvalidArgumentError(f"{chosen.file}: user {chosen.user} exists already; add --replace")

    with suppress(FileNotFoundError):
        check(read_users(chosen.file)[0])  # before a person types a password
    password = _read_password() if chosen.password_stdin else _ask_password(chosen.user)
    user = User(chosen.user, Digest.of(password, SystemEntropy().token(SALT_BYTES)), grants)

    def change(users: Users) -> Users:
        check(users)
        return users.with_user(user)

    change_users(chosen.file, change)
    _warn_of_others(chosen.file)


def list_users(chosen: argparse.Namespace) -> None:
    from headrace.security.users_on_disk import read_users

    users, _, _ = read_users(chosen.file)
    if chosen.json:
        print_json([{"user": user.name, "grants": list(map(str, user.grants))} for user in users])
    else:
        print_columns(("user", "grants"), [(user.name, ";".join(map(str, user.grants))) for user in users])


def remove_user(chosen: argparse.Namespace) -> None:
    from headrace.security.users_file import Users
    from headrace.security.users_on_disk import change_users, read_users

    def check(users: Users) -> bool:
        if chosen.user in users.by_name:
            return True
        if chosen.if_exists:
            return False
        raise InvalidArgumentError(f"{chosen.file}: user {chosen.user} does not exist")

    def change(users: Users) -> Users:
        check(users)
        return users.without(chosen.user)

    if check(read_users(chosen.file)[0]):  # a file that does not exist is not made
        change_users(chosen.file, change)
        _warn_of_others(chosen.file)


def _grants(texts: list[str]) -> tuple[Grant, ...]:
    from headrace.security.grants import Grant

    found = []
    for text in texts:
        try:
            found.append(Grant.parse(text))
        except InvalidArgumentError as error:
            raise InvalidArgumentError(f"--grant {text[:200]!r}: {error}") from None
    return tuple(found)


def _read_password() -> str:
    from headrace.security.passwords import PASSWORD_BYTES_MAX

    raw = sys.stdin.buffer.read(PASSWORD_BYTES_MAX + 2)  # what is longer is refused as it is
    try:
        return raw.removesuffix(b"\n").decode()
    except UnicodeDecodeError:
        raise InvalidArgumentError("the password is not UTF-8") from None


def _ask_password(user: str) -> str:
    from headrace.security.passwords import check_new

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
    from headrace.security.users_on_disk import OTHERS, read_users

    _, _, mode = read_users(path)
    if mode & OTHERS:
        progress(f"warning: {path} has mode {mode:04o}, so others can read it: chmod 600 {path}")
