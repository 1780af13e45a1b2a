"""``headrace inspect``: look into the data of a server, or ask a running one, and change nothing."""

from __future__ import annotations

from headrace.cli.shared_options import DATA, REST_SERVER, argument, flag, option
from headrace.cli.verbs import Noun

_LOG = "headrace.cli.inspect.log"
_METADATA = "headrace.cli.inspect.container"

CONTAINER = option("--container", type=int, metavar="N", help="only this container")
DEEP = flag("--deep", help="read every stored byte, compare its checksum")
_SEGMENT = argument("name", "NAME", "full name of the segment: SCOPE/STREAM/NUMBER.#epoch.EPOCH")
_NEEDED = "which container: required if there are several"


def declare(name: str, summary: str) -> Noun:
    inspect = Noun(name, summary)
    _declare_log_verbs(inspect)
    _declare_metadata_verbs(inspect)
    inspect.verb(
        "cache",
        *("headrace.cli.inspect.cache", "inspect_cache"),
        "Statistics of a running server in ten lines: cache, unstored bytes, reads, appends, log, storage.",
        """
        headrace inspect cache
        headrace inspect cache --all --rest 127.0.0.1:10080 --container 0
        headrace inspect cache --json
        """,
        CONTAINER,
        flag("--all", "everything", help="everything that is counted, by part; --json has that too"),
        *REST_SERVER,
    )
    return inspect


def _declare_log_verbs(inspect: Noun) -> None:
    inspect.verb(
        *("wal", _LOG, "inspect_wal"),
        "The write-ahead log: files, owner, addresses, and what is torn or damaged where.",
        """
        headrace inspect wal --data-dir headrace-data
        headrace inspect wal --data-dir headrace-data --container 0 --json
        """,
        CONTAINER,
        *DATA,
    )
    inspect.verb(
        *("frames", _LOG, "inspect_frames"),
        "The data frames of a container's log, one a line.",
        "headrace inspect frames --data-dir headrace-data --container 0",
        option("--container", type=int, metavar="N", help=_NEEDED),
        *DATA,
    )
    inspect.verb(
        *("operations", _LOG, "inspect_operations"),
        "The operations of a container's log, one a line.",
        """
        headrace inspect operations --data-dir headrace-data --container 0 --limit 20
        headrace inspect operations --segment demo/orders/0.#epoch.0 --from 100 --json
        """,
        option("--container", type=int, metavar="N", help=f"{_NEEDED}, unless --segment says it"),
        option("--segment", metavar="NAME", help="only what is about this segment"),
        option("--from", "from_sequence", type=int, default=0, metavar="SEQ", help="sequence to begin with"),
        option("-n", "--limit", type=int, metavar="N", help="stop after so many"),
        *DATA,
    )


def _declare_metadata_verbs(inspect: Noun) -> None:
    inspect.verb(
        *("container", _METADATA, "inspect_container"),
        "Metadata as the next start would recover them: epoch, checkpoints, segments, storage rows.",
        """
        headrace inspect container --data-dir headrace-data
        headrace inspect container --data-dir headrace-data --container 0 --json
        """,
        CONTAINER,
        flag("--inactive", "with_inactive", help="also list inactive segments"),
        *DATA,
    )
    inspect.verb(
        *("segment", _METADATA, "inspect_segment"),
        "One segment: state, attributes, chunks, and which part of it is unstored.",
        """
        headrace inspect segment demo/orders/0.#epoch.0 --data-dir headrace-data
        headrace inspect segment demo/orders/0.#epoch.0 --deep --json
        """,
        _SEGMENT,
        DEEP,
        *DATA,
    )
    inspect.verb(
        *("tree", "headrace.cli.inspect.tree", "inspect_tree"),
        "The attribute index of a segment, as it is stored: a drawing of its pages.",
        """
        headrace inspect tree demo/orders/0.#epoch.0 --data-dir headrace-data
        headrace inspect tree demo/orders/0.#epoch.0 --check --json
        """,
        _SEGMENT,
        flag("--check", "checks", help="read every page, and prove what the format says"),
        *DATA,
    )
