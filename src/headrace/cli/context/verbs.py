"""What ``headrace context`` does to the file of contexts."""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path

from headrace.cli.contexts import (
    Contexts,
    ServerContext,
    check_name,
    read_contexts,
    write_contexts,
)
from headrace.cli.output import print_columns, print_json, progress
from headrace.cli.servers import plain_with_authorities
from headrace.errors import InvalidArgumentError
from headrace.runtime.client_variables import CONTEXT_VARIABLE


def add_context(
    *,
    name: str,
    address: str,
    rest_address: str | None,
    authorities: str | None,
    user: str | None,
    password_file: str | None,
    replace: bool,
) -> None:
    """Raises InvalidArgumentError: something is wrong with it, or there is one of this name."""
    from headrace.client.config import ControllerAddress

    check_name(name)
    if not ControllerAddress.parse(address).tls and authorities:
        raise plain_with_authorities(address, "tls")
    if (user is None) != (password_file is None):
        raise InvalidArgumentError("--user and --password-file belong to each other")
    contexts = read_contexts()
    if name in contexts.by_name and not replace:
        raise InvalidArgumentError(f"there is a context {name!r} already; add --replace")
    added = ServerContext(address, rest_address, _absolute(authorities), user, _absolute(password_file))
    write_contexts(Contexts({**contexts.by_name, name: added}, name))
    _warn_of_variable(name)


def _absolute(file: str | None) -> str | None:
    """Return a path that is right from everywhere. Raises InvalidArgumentError: there is no such file."""
    if file is None:
        return None
    path = Path(file).expanduser().absolute()
    if not path.is_file():
        raise InvalidArgumentError(f"{path} is no file")
    return str(path)


def list_contexts(*, as_json: bool) -> None:
    contexts = read_contexts()
    used = os.environ.get(CONTEXT_VARIABLE, contexts.used or "")
    found = sorted(contexts.by_name.items())
    if as_json:
        print_json([{"name": name, "used": name == used, **asdict(each)} for name, each in found])
        return
    print_columns(
        ("", "name", "controller", "rest", "user"),
        [("*" if name == used else "", name, each.uri, each.rest, each.user) for name, each in found],
    )


def use_context(*, name: str) -> None:
    """Raises InvalidArgumentError: there is none of this name."""
    contexts = read_contexts()
    contexts.get(name)
    write_contexts(Contexts(contexts.by_name, name))
    _warn_of_variable(name)


def remove_context(*, name: str, if_exists: bool) -> None:
    """Raises InvalidArgumentError: there is none of this name."""
    contexts = read_contexts()
    if if_exists and name not in contexts.by_name:
        return
    contexts.get(name)
    others = {other: each for other, each in contexts.by_name.items() if other != name}
    write_contexts(Contexts(others, None if contexts.used == name else contexts.used))


def _warn_of_variable(name: str) -> None:
    wanted = os.environ.get(CONTEXT_VARIABLE)
    if wanted is not None and wanted != name:
        progress(f"{CONTEXT_VARIABLE} is set to {wanted!r}: in this shell it counts instead")
