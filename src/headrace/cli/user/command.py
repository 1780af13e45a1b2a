"""``headrace user``: who may use a server that is started with ``--users``."""

from __future__ import annotations

from headrace.cli.shared_options import JSON, VERBOSE, argument, flag, option
from headrace.cli.verbs import Noun

_DOES = "headrace.cli.user.verbs"

_USER = argument("user", "NAME")
_FILE = option("--file", metavar="FILE", required=True, help="the users file")


def declare(name: str, summary: str) -> Noun:
    user = Noun(name, summary)
    user.verb(
        *("add", _DOES, "add_user"),
        "Add a user with a password and grants; a running server notices it within a second.",
        """
        headrace user add admin --file users --grant 'prn::*,READ_UPDATE'
        headrace user add ada --file users --grant 'prn::/scope:sales*,READ' --password-stdin < password
        """,
        _USER,
        _FILE,
        option(
            *("--grant", "grants"),
            metavar="PATTERN,PERMISSION",
            multiple=True,
            required=True,
            help="what the user may do: READ, READ_UPDATE or NONE for resources as prn::/scope:S/stream:T, "
            "* stands for any characters; the first that matches decides; repeatable",
        ),
        flag("--password-stdin", help="read the password from stdin instead of asking"),
        flag("--replace", help="with new password and grants if it exists"),
        VERBOSE,
    )
    user.verb(
        *("list", _DOES, "list_users", "List users and their grants."),
        "headrace user list --file users",
        _FILE,
        JSON,
        VERBOSE,
    )
    user.verb(
        *("remove", _DOES, "remove_user"),
        "Remove a user; a running server notices it within a second.",
        "headrace user remove ada --file users",
        _USER,
        _FILE,
        flag("--if-exists", help="succeed if there is none"),
        VERBOSE,
    )
    return user
