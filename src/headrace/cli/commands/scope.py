"""``headrace scope``: the namespaces of streams."""

from __future__ import annotations

import argparse

from headrace.cli.output import print_json, print_line
from headrace.cli.verbs import Subparsers, add_confirmation, add_noun, add_verb, confirm, connect
from headrace.errors import NoSuchScopeError, ScopeExistsError


def register(nouns: Subparsers[argparse.ArgumentParser]) -> None:
    verbs = add_noun(nouns, "scope", "List, create and delete scopes.")
    add_verb(verbs, "list", list_scopes, "List all scopes.", "headrace scope list")

    create = add_verb(verbs, "create", create_scope, "Create a scope.", "headrace scope create demo")
    create.add_argument("scope", metavar="SCOPE")
    create.add_argument("--if-absent", action="store_true", help="succeed if it exists already")

    delete = add_verb(
        verbs,
        "delete",
        delete_scope,
        "Delete a scope; it has to be empty.",
        """
        headrace scope delete demo --yes
        headrace scope delete demo --recursive --yes
        """,
    )
    delete.add_argument("scope", metavar="SCOPE")
    delete.add_argument("--recursive", action="store_true", help="with every stream and table in it")
    delete.add_argument("--if-exists", action="store_true", help="succeed if there is none")
    add_confirmation(delete)


def list_scopes(chosen: argparse.Namespace) -> None:
    with connect(chosen) as client:
        scopes = sorted(client.list_scopes())
    if chosen.json:
        print_json(scopes)
    else:
        for scope in scopes:
            print_line(scope)


def create_scope(chosen: argparse.Namespace) -> None:
    with connect(chosen) as client:
        created = client.create_scope(chosen.scope)
    if not created and not chosen.if_absent:
        raise ScopeExistsError(f"scope {chosen.scope} exists already")
    if chosen.json:
        print_json({"scope": chosen.scope, "created": created})


def delete_scope(chosen: argparse.Namespace) -> None:
    everything = " with everything in it" if chosen.recursive else ""
    confirm(chosen, f"Delete scope {chosen.scope}{everything}")
    with connect(chosen) as client:
        deleted = client.delete_scope(chosen.scope, recursive=chosen.recursive)
    if not deleted and not chosen.if_exists:
        raise NoSuchScopeError(f"scope {chosen.scope} does not exist")
    if chosen.json:
        print_json({"scope": chosen.scope, "deleted": deleted})
