"""``headrace check``: every invariant that can be checked without running a server."""

from __future__ import annotations

from headrace.cli.inspect.command import CONTAINER, DEEP
from headrace.cli.shared_options import DATA
from headrace.cli.verbs import Noun


def declare(name: str, summary: str) -> Noun:
    check = Noun(name, summary)
    check.verb(
        "container",
        *("headrace.cli.check.container", "check_containers"),
        "Check logs, metadata and chunks. One line per finding; exit code 6 if anything is damaged.",
        """
        headrace check container --data-dir headrace-data
        headrace check container --data-dir headrace-data --container 0 --deep
        """,
        CONTAINER,
        DEEP,
        *DATA,
    )
    return check
