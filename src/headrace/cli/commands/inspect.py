"""``headrace inspect``: look into the data of a server, or ask a running one, and change nothing."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from importlib import import_module

from headrace.cli.verbs import Subparsers, add_noun, add_rest, add_verb

DATA_DIR_DEFAULT = "headrace-data"
DATA_DIR_VARIABLE = "HEADRACE_DATA_DIR"
"""What the server reads as well: both look at the same data."""
_NEEDED = "required if there are several"


def register(nouns: Subparsers[argparse.ArgumentParser]) -> None:
    verbs = add_noun(nouns, "inspect", "Look into the data of a server; nothing is ever changed.")
    _add_log_verbs(verbs)
    _add_metadata_verbs(verbs)
    verb = add_verb(
        verbs,
        "cache",
        later("headrace.cli.inspect_cache", "inspect_cache"),
        "Statistics of a running server: cache, read index, queues, logs, storage writers.",
        """
        headrace inspect cache
        headrace inspect cache --rest 127.0.0.1:10080 --container 0
        headrace inspect cache --json
        """,
        connects=False,
    )
    add_rest(verb)
    verb.add_argument("--container", type=int, metavar="N", help="only this container")


def later(module: str, name: str) -> Callable[[argparse.Namespace], None]:
    """Return a verb whose module is imported when it is executed."""

    def run(chosen: argparse.Namespace) -> None:
        getattr(import_module(module), name)(chosen)

    return run


def _add_log_verbs(verbs: Subparsers[argparse.ArgumentParser]) -> None:
    verb = add_verb(
        verbs,
        "wal",
        later("headrace.cli.inspect_log", "inspect_wal"),
        "The write-ahead log: files, owner, addresses, and what is torn or damaged where.",
        """
        headrace inspect wal --data-dir headrace-data
        headrace inspect wal --data-dir headrace-data --container 0 --json
        """,
        connects=False,
    )
    add_data_arguments(verb)
    verb = add_verb(
        verbs,
        "frames",
        later("headrace.cli.inspect_log", "inspect_frames"),
        "The data frames of a container's log, one a line.",
        """
        headrace inspect frames --data-dir headrace-data --container 0
        """,
        connects=False,
    )
    add_data_arguments(verb, container=f"which container: {_NEEDED}")
    verb = add_verb(
        verbs,
        "operations",
        later("headrace.cli.inspect_log", "inspect_operations"),
        "The operations of a container's log, one a line.",
        """
        headrace inspect operations --data-dir headrace-data --container 0 --limit 20
        headrace inspect operations --segment demo/orders/0.#epoch.0 --from 100 --json
        """,
        connects=False,
    )
    add_data_arguments(verb, container=f"which container: {_NEEDED}, unless --segment says it")
    verb.add_argument("--segment", metavar="NAME", help="only what is about this segment")
    verb.add_argument(
        "--from", dest="from_sequence", type=int, default=0, metavar="SEQ", help="sequence to begin with"
    )
    verb.add_argument("--limit", type=int, metavar="N", help="stop after so many")


def _add_metadata_verbs(verbs: Subparsers[argparse.ArgumentParser]) -> None:
    verb = add_verb(
        verbs,
        "container",
        later("headrace.cli.inspect_container", "inspect_container"),
        "Metadata as the next start would recover them: epoch, checkpoints, segments, storage rows.",
        """
        headrace inspect container --data-dir headrace-data
        headrace inspect container --data-dir headrace-data --container 0 --json
        """,
        connects=False,
    )
    add_data_arguments(verb)
    verb.add_argument("--inactive", action="store_true", help="also list inactive segments")
    verb = add_verb(
        verbs,
        "segment",
        later("headrace.cli.inspect_container", "inspect_segment"),
        "One segment: state, attributes, chunks, and which part of it is unstored.",
        """
        headrace inspect segment demo/orders/0.#epoch.0 --data-dir headrace-data
        headrace inspect segment demo/orders/0.#epoch.0 --deep --json
        """,
        connects=False,
    )
    verb.add_argument("name", metavar="NAME", help="full name: SCOPE/STREAM/NUMBER.#epoch.EPOCH")
    add_data_arguments(verb, container="")
    verb.add_argument("--deep", action="store_true", help="read every stored byte, compare its checksum")
    verb = add_verb(
        verbs,
        "tree",
        later("headrace.cli.inspect_tree", "inspect_tree"),
        "The attribute index of a segment, as it is stored: a drawing of its pages.",
        """
        headrace inspect tree demo/orders/0.#epoch.0 --data-dir headrace-data
        headrace inspect tree demo/orders/0.#epoch.0 --check --json
        """,
        connects=False,
    )
    verb.add_argument(
        "name", metavar="NAME", help="full name of the segment: SCOPE/STREAM/NUMBER.#epoch.EPOCH"
    )
    add_data_arguments(verb, container="")
    verb.add_argument("--check", action="store_true", help="read every page, and prove what the format says")


def add_data_arguments(verb: argparse.ArgumentParser, *, container: str = "only this container") -> None:
    """Declare what every verb takes that looks into a data directory; ``container``: what that option says,
    empty for none.
    """
    verb.add_argument(
        "--data-dir",
        metavar="DIR",
        default=os.environ.get(DATA_DIR_VARIABLE, DATA_DIR_DEFAULT),
        help=f"where the data live (default: ${DATA_DIR_VARIABLE}, or {DATA_DIR_DEFAULT})",
    )
    if container:
        verb.add_argument("--container", type=int, metavar="N", help=container)
    verb.add_argument("--json", action="store_true", help="answer in JSON")
