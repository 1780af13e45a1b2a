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
    _add_export(verbs)
    _add_import(verbs)
    _add_rebuild(verbs)


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


def _add_export(verbs: Subparsers[argparse.ArgumentParser]) -> None:
    verb = add_verb(
        verbs,
        "export",
        later("headrace.cli.storage_export", "run"),
        "The bytes of streams out of the data of a stopped server, in the header-file layout.",
        """
        headrace storage export demo/orders --data-dir headrace-data --to /backup/orders
        headrace storage export demo/orders/0.#epoch.0 --to s3://backup/orders
        """,
        connects=False,
    )
    verb.add_argument("names", nargs="+", metavar="NAME", help="SCOPE/STREAM, or the full name of a segment")
    add_data_arguments(verb, container="")
    verb.add_argument(
        "--storage", metavar="URI", help="where the chunks are (default: what the data directory says)"
    )
    verb.add_argument("--to", dest="target", required=True, metavar="DIR|URI", help="where they go")


def _add_import(verbs: Subparsers[argparse.ArgumentParser]) -> None:
    verb = add_verb(
        verbs,
        "import",
        later("headrace.cli.storage_import", "run"),
        "Streams in the header-file layout into a running server, as new streams.",
        """
        headrace storage import --from /backup/orders
        headrace storage import demo/orders --from s3://backup/orders --as demo/restored
        """,
    )
    verb.add_argument("names", nargs="*", metavar="SCOPE/STREAM", help="only these (default: all)")
    verb.add_argument("--from", dest="source", required=True, metavar="DIR|URI", help="where they are")
    verb.add_argument("--as", dest="into", metavar="SCOPE/STREAM", help="another name of the stream")
    verb.add_argument("--bytes", action="store_true", help="they are streams of bytes, not of events")


def _add_rebuild(verbs: Subparsers[argparse.ArgumentParser]) -> None:
    verb = add_verb(
        verbs,
        "rebuild",
        later("headrace.cli.storage_rebuild", "run"),
        "A data directory anew, from chunks and the copies of the logs beside them.",
        """
        headrace storage rebuild --from s3://bucket/system --data-dir headrace-data
        headrace storage rebuild --from file:///mnt/chunks --data-dir headrace-data --at 1h
        """,
        connects=False,
    )
    verb.add_argument("--from", dest="source", required=True, metavar="URI", help="the chunks of the system")
    verb.add_argument("--data-dir", required=True, help="where it is rebuilt; no log may be there")
    verb.add_argument(
        "--at",
        metavar="TIME",
        help="from the newest copies at a time, or so long ago (default: of all)",
    )
    verb.add_argument("--json", action="store_true", help="answer in JSON, with every writer's event number")


def add_rates(verb: argparse.ArgumentParser) -> None:
    """Declare the options of verbs that must not disturb others who use the store."""
    for name, what in (("requests", "requests"), ("bytes", "bytes read or written")):
        verb.add_argument(
            f"--{name}-per-s", type=float, metavar="N", help=f"at most so many {what} per second"
        )
