"""``headrace status``: whether a server is ready, what it holds and what waits."""

from __future__ import annotations

from headrace.cli.shared_options import JSON, TLS_CA, URI, VERBOSE, option
from headrace.cli.verbs import Later, Verb

_EXAMPLES = """
headrace status
headrace status --rest 127.0.0.1:10080 --json
"""


def declare(name: str, summary: str) -> Verb:
    return Verb(
        name,
        Later("headrace.cli.server.status", "show_status"),
        summary,
        _EXAMPLES,
        option(
            "--rest",
            metavar="HOST:PORT",
            default="",
            help="REST address, or https:// and that (default: port 10080 of the controller's host)",
        ),
        URI,
        TLS_CA,
        JSON,
        VERBOSE,
    )
