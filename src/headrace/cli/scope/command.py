"""``headrace scope``: the namespaces of streams."""

from __future__ import annotations

from headrace.cli.shared_options import CONNECTION, SCOPE, YES, flag
from headrace.cli.verbs import Noun

_DOES = "headrace.cli.scope.verbs"


def declare(name: str, summary: str) -> Noun:
    scope = Noun(name, summary)
    scope.verb("list", _DOES, "list_scopes", "List all scopes.", "headrace scope list", *CONNECTION)
    scope.verb(
        *("create", _DOES, "create_scope", "Create a scope."),
        "headrace scope create demo",
        SCOPE,
        flag("--if-absent", help="succeed if it exists already"),
        *CONNECTION,
    )
    scope.verb(
        *("delete", _DOES, "delete_scope", "Delete a scope; it has to be empty."),
        """
        headrace scope delete demo --yes
        headrace scope delete demo --recursive --yes
        """,
        SCOPE,
        flag("--recursive", help="with every stream and table in it"),
        flag("--if-exists", help="succeed if there is none"),
        YES,
        *CONNECTION,
    )
    return scope
