"""``headrace check``: every invariant that can be checked without running a server."""

from __future__ import annotations

import argparse

from headrace.cli.commands.inspect import add_data_arguments, later
from headrace.cli.verbs import Subparsers, add_noun, add_verb


def register(nouns: Subparsers[argparse.ArgumentParser]) -> None:
    verbs = add_noun(
        nouns, "check", "Check the data of a server, stopped or running; nothing is ever changed."
    )
    verb = add_verb(
        verbs,
        "container",
        later("headrace.cli.check_container", "run"),
        "Check logs, metadata and chunks. One line per finding; exit code 6 if anything is damaged.",
        """
        headrace check container --data-dir headrace-data
        headrace check container --data-dir headrace-data --container 0 --deep
        """,
        connects=False,
    )
    add_data_arguments(verb)
    verb.add_argument("--deep", action="store_true", help="read every stored byte, compare its checksum")
