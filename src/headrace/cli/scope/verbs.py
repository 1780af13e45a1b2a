"""What ``headrace scope`` does."""

from __future__ import annotations

from headrace.cli.output import finished, print_json, print_line
from headrace.cli.servers import Connection, confirm
from headrace.errors import NoSuchScopeError, ScopeExistsError


def list_scopes(*, connection: Connection, as_json: bool) -> None:
    with connection.connect() as client:
        scopes = sorted(client.list_scopes())
    if as_json:
        print_json(scopes)
    else:
        for scope in scopes:
            print_line(scope)


def create_scope(*, scope: str, if_absent: bool, connection: Connection, as_json: bool) -> None:
    with connection.connect() as client:
        created = client.create_scope(scope)
    if not created and not if_absent:
        raise ScopeExistsError(f"scope {scope} exists already")
    if as_json:
        print_json({"scope": scope, "created": created})
    else:
        finished(f"scope {scope} {'created' if created else 'exists already'}")


def delete_scope(
    *, scope: str, recursive: bool, if_exists: bool, yes: bool, connection: Connection, as_json: bool
) -> None:
    everything = " with everything in it" if recursive else ""
    confirm(f"Delete scope {scope}{everything}", yes=yes)
    with connection.connect() as client:
        deleted = client.delete_scope(scope, recursive=recursive)
    if not deleted and not if_exists:
        raise NoSuchScopeError(f"scope {scope} does not exist")
    if as_json:
        print_json({"scope": scope, "deleted": deleted})
