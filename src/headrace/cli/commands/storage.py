"""``headrace storage``: long-term storage as a whole, wherever it is."""

from __future__ import annotations

import argparse

from headrace.cli.commands.inspect import add_data_arguments, later
from headrace.cli.verbs import Subparsers, add_confirmation, add_noun, add_verb


def register(nouns: Subparsers[argparse.ArgumentParser]) -> None:
    verbs = add_noun(nouns, "storage", "Check, mend, copy and move what is in long-term storage.")
    _add_check(verbs)
    _add_repair(verbs)
    _add_copy(verbs)


def _add_check(verbs: Subparsers[argparse.ArgumentParser]) -> None:
    verb = add_verb(
        verbs,
        "check",
        later("headrace.cli.storage_check", "run"),
        "Every chunk against its row, every object against all rows. Exit code 6 if anything is damaged.",
        """
        headrace storage check --data-dir headrace-data
        headrace storage check --data-dir headrace-data --deep --bytes-per-s 50e6
        """,
        connects=False,
    )
    add_data_arguments(verb, container="")
    verb.add_argument("--deep", action="store_true", help="read every stored byte, compare its checksum")
    verb.add_argument(
        "--storage", metavar="URI", help="where the chunks are (default: what the data directory says)"
    )
    add_rates(verb)


def _add_repair(verbs: Subparsers[argparse.ArgumentParser]) -> None:
    verb = add_verb(
        verbs,
        "repair",
        later("headrace.cli.storage_repair", "run"),
        "Mend what can be without guessing, in the data of a stopped server; each action is told.",
        """
        headrace storage repair --data-dir headrace-data --dry-run
        headrace storage repair --data-dir headrace-data --yes
        """,
        connects=False,
    )
    add_data_arguments(verb, container="")
    verb.add_argument("--dry-run", action="store_true", help="only say what would be done")
    add_confirmation(verb)


def _add_copy(verbs: Subparsers[argparse.ArgumentParser]) -> None:
    verb = add_verb(
        verbs,
        "copy",
        later("headrace.cli.storage_copy", "run"),
        "All objects of a store to another one; what is there already is left out.",
        """
        headrace storage copy --from file:///var/headrace/chunks --to s3://backup/system
        headrace storage copy --from s3://old/system --to s3://new/system --verify
        """,
        connects=False,
    )
    verb.add_argument("--from", dest="source", required=True, metavar="URI", help="what is read")
    verb.add_argument("--to", dest="target", required=True, metavar="URI", help="where it goes")
    verb.add_argument("--verify", action="store_true", help="read both, also what was there, and compare")
    verb.add_argument("--json", action="store_true", help="answer in JSON")
    add_rates(verb)


def add_rates(verb: argparse.ArgumentParser) -> None:
    """Declare the options of verbs that must not disturb others who use the store."""
    for name, what in (("requests", "requests"), ("bytes", "bytes read or written")):
        verb.add_argument(
            f"--{name}-per-s", type=float, metavar="N", help=f"at most so many {what} per second"
        )
