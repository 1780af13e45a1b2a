"""``headrace context``: servers under names of a person's own."""

from __future__ import annotations

from headrace.cli.shared_options import JSON, argument, flag, option
from headrace.cli.verbs import Noun

_DOES = "headrace.cli.context.verbs"
_NAME = argument("name", "NAME")


def declare(name: str, summary: str) -> Noun:
    context = Noun(name, summary)
    context.verb(
        *("add", _DOES, "add_context"),
        "Give a server a name, and use it from now on where no other is given.",
        """
        headrace context add local tcp://localhost:9090
        headrace context add prod tls://a:9090,b:9090 --tls-ca ca.pem --user ada --password-file ~/ada
        """,
        _NAME,
        argument("address", "URI"),
        option(
            "--rest",
            "rest_address",
            metavar="HOST:PORT",
            help="its REST address, behind https:// if it speaks TLS",
        ),
        option("--tls-ca", "authorities", metavar="FILE", help="authorities to trust, in PEM form"),
        option("--user", metavar="NAME", help="who asks; needs --password-file"),
        option(
            "--password-file", metavar="FILE", help="whose first line is the password; read when it is needed"
        ),
        flag("--replace", help="if there is one of this name"),
    )
    context.verb(
        *("list", _DOES, "list_contexts", "List contexts; * is in front of the one that is used."),
        "headrace context list",
        JSON,
    )
    context.verb(
        *("use", _DOES, "use_context"),
        "Use a server where no other is given; HEADRACE_CONTEXT says another one for a shell.",
        "headrace context use prod",
        _NAME,
    )
    context.verb(
        *("remove", _DOES, "remove_context", "Forget a server."),
        "headrace context remove prod",
        _NAME,
        flag("--if-exists", help="succeed if there is none"),
    )
    return context
