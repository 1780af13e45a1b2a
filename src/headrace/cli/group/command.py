"""``headrace group``: reader groups, their readers and how far they are."""

from __future__ import annotations

from headrace.cli.completion.names import complete_group, complete_scope
from headrace.cli.shared_options import CONNECTION, YES, argument, flag, option
from headrace.cli.verbs import Noun

_QUERIES = "headrace.cli.group.queries"
_CHANGES = "headrace.cli.group.changes"

_GROUP = argument("group", "SCOPE/GROUP", shell_complete=complete_group)


def declare(name: str, summary: str) -> Noun:
    group = Noun(name, summary)
    group.verb(
        *(
            "list",
            _QUERIES,
            "list_groups",
            "List reader groups with their readers and what they have not read.",
        ),
        """
        headrace group list
        headrace group list demo
        """,
        argument("scope", "[SCOPE]", required=False, shell_complete=complete_scope),
        *CONNECTION,
    )
    group.verb(
        *("show", _QUERIES, "show_group"),
        "Show the streams of a reader group, its readers, and each segment with what is left of it.",
        "headrace group show demo/etl",
        _GROUP,
        *CONNECTION,
    )
    group.verb(
        *("checkpoint", _CHANGES, "checkpoint_group"),
        "Make a checkpoint that all readers pass, and print its cuts.",
        """
        headrace group checkpoint demo/etl
        headrace group checkpoint demo/etl --name nightly --timeout 5min
        """,
        _GROUP,
        option("--name", metavar="NAME", help="of the checkpoint (default: a random one)"),
        option("--timeout", default="1min", metavar="TIME", help="to wait for readers (default: 1min)"),
        *CONNECTION,
    )
    group.verb(
        *("reset", _CHANGES, "reset_group"),
        "Let a reader group begin elsewhere; its readers stop, and have to be opened again.",
        """
        headrace group reset demo/etl --yes
        headrace group reset demo/etl --to head --yes
        headrace group reset demo/etl --to 2026-11-25T10:00 --yes
        """,
        _GROUP,
        option(
            "--to",
            "place",
            metavar="PLACE",
            help="head, tail, a cut or a time (default: last checkpoint)",
        ),
        YES,
        *CONNECTION,
    )
    group.verb(
        *("offline", _CHANGES, "put_offline"),
        "Put a reader offline that is gone, so that others go on with its segments.",
        "headrace group offline demo/etl worker-7 --yes",
        _GROUP,
        argument("reader", "READER"),
        YES,
        *CONNECTION,
    )
    group.verb(
        *("delete", _CHANGES, "delete_group", "Delete a reader group; its streams stay."),
        "headrace group delete demo/etl --yes",
        _GROUP,
        flag("--if-exists", help="succeed if there is none"),
        YES,
        *CONNECTION,
    )
    return group
