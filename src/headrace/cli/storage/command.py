"""``headrace storage``: long-term storage as a whole, wherever it is."""

from __future__ import annotations

from headrace.cli.inspect.command import DEEP
from headrace.cli.shared_options import (
    CONNECTION,
    COORDINATOR,
    DATA,
    DATA_DIR,
    JSON,
    REST_SERVER,
    VERBOSE,
    YES,
    argument,
    flag,
    option,
    store_option,
)
from headrace.cli.verbs import Noun

_STORAGE = store_option(
    "--storage", "storage", "where the chunks are (default: what the data directory says)", required=False
)
_RATES = tuple(
    option(f"--{name}-per-s", type=float, metavar="N", help=f"at most so many {what} per second")
    for name, what in (("requests", "requests"), ("bytes", "bytes read or written"))
)
"""Of verbs that must not disturb others who use the store."""


def declare(name: str, summary: str) -> Noun:
    storage = Noun(name, summary)
    _declare_looks(storage)
    _declare_moves(storage)
    storage.add_command(_optimiser())
    return storage


def _optimiser() -> Noun:
    optimiser = Noun("optimiser", "Show, pause and resume the merging of small chunks in a running server.")
    module = "headrace.cli.storage.optimiser"
    for name, summary in (
        ("status", "How far each container is with merging small chunks."),
        ("pause", "Merge no chunks until it is resumed or the server starts again; return when none is."),
        ("resume", "Go on with merging small chunks."),
    ):
        function = f"{'show' if name == 'status' else name}_optimiser"
        example = f"headrace storage optimiser {name} --rest 127.0.0.1:10080"
        optimiser.verb(name, module, function, summary, example, *REST_SERVER)
    return optimiser


def _declare_looks(storage: Noun) -> None:
    storage.verb(
        *("check", "headrace.cli.storage.check", "check_storage"),
        "Every chunk against its row, every object against all rows. Exit code 6 if anything is damaged.",
        """
        headrace storage check --data-dir headrace-data
        headrace storage check --data-dir headrace-data --deep --bytes-per-s 50e6
        """,
        DEEP,
        _STORAGE,
        *_RATES,
        *DATA,
    )
    storage.verb(
        *("repair", "headrace.cli.storage.repair", "repair"),
        "Mend what can be without guessing, in the data of a stopped server; each action is told.",
        """
        headrace storage repair --data-dir headrace-data --dry-run
        headrace storage repair --data-dir headrace-data --yes
        """,
        flag("--dry-run", help="only say what would be done"),
        YES,
        COORDINATOR,
        *DATA,
    )
    storage.verb(
        *("rebuild", "headrace.cli.storage.rebuild", "rebuild"),
        "A data directory anew, from chunks and the copies of the logs beside them.",
        """
        headrace storage rebuild --storage s3://bucket/system --data-dir headrace-data
        headrace storage rebuild --storage file:///mnt/chunks --data-dir headrace-data --at 1h
        """,
        store_option("--storage", "source", "where the chunks of the system are", required=True),
        option(
            *("-d", "--data-dir"),
            required=True,
            metavar="DIR",
            help="where it is rebuilt; no log may be there",
        ),
        option(
            "--at",
            metavar="TIME",
            help="from the newest copies at a time, or so long ago (default: of all)",
        ),
        COORDINATOR,
        flag("-j", "--json", "as_json", help="answer in JSON, with every writer's event number"),
        VERBOSE,
    )


def _declare_moves(storage: Noun) -> None:
    storage.verb(
        *("copy", "headrace.cli.storage.copy", "copy_store"),
        "All objects of a store to another one; what is there already is left out.",
        """
        headrace storage copy --storage file:///var/headrace/chunks --to s3://backup/system
        headrace storage copy --storage s3://old/system --to s3://new/system --verify
        """,
        store_option("--storage", "source", "the store that is read", required=True),
        option("--to", "target", required=True, metavar="URI", help="where it goes"),
        flag("--verify", help="read both, also what was there, and compare"),
        *_RATES,
        JSON,
        VERBOSE,
    )
    storage.verb(
        *("export", "headrace.cli.storage.export", "export"),
        "The bytes of streams out of the data of a stopped server, or through a running one, in the "
        "header-file layout.",
        """
        headrace storage export demo/orders --online --to /backup/orders
        headrace storage export demo/orders --data-dir headrace-data --to /backup/orders
        headrace storage export demo/orders/0.#epoch.0 --to s3://backup/orders
        """,
        flag("--online", help="through the running server, up to what it has now"),
        argument(*("names", "NAME", "SCOPE/STREAM, or the full name of a segment"), nargs=-1, required=True),
        option("--to", "target", required=True, metavar="DIR|URI", help="where they go"),
        _STORAGE,
        DATA_DIR,
        *CONNECTION,
        apart=[("online", "data_dir"), ("online", "storage")],
    )
    storage.verb(
        *("import", "headrace.cli.storage.import_", "import_streams"),
        "Streams in the header-file layout into a running server, as new streams.",
        """
        headrace storage import --from /backup/orders
        headrace storage import demo/orders --from s3://backup/orders --as demo/restored
        """,
        argument("names", "SCOPE/STREAM", "only these (default: all)", nargs=-1),
        store_option("--from", "source", "where they are", required=True, metavar="DIR|URI"),
        option("--as", "into", metavar="SCOPE/STREAM", help="another name of the stream"),
        flag("--bytes", "as_bytes", help="they are streams of bytes, not of events"),
        *CONNECTION,
    )
