"""``headrace stream``: what its verbs are called and which options they take."""

from __future__ import annotations

from headrace.cli.completion.names import complete_scope
from headrace.cli.shared_options import (
    CONNECTION,
    REST_SERVER,
    STREAM,
    YES,
    SegmentId,
    Several,
    argument,
    flag,
    option,
)
from headrace.cli.verbs import Noun

_QUERIES = "headrace.cli.stream.queries"
_CHANGES = "headrace.cli.stream.changes"
_RETENTION = option(
    "--retention", metavar="TEXT", help="drop what is older, or more: '7 days', 12h, 100GiB, none"
)
_RATE = "split and merge segments to keep each below this rate"


def declare(name: str, summary: str) -> Noun:
    stream = Noun(name, summary)
    _declare_queries(stream)
    _declare_wait(stream)
    _declare_create(stream)
    _declare_changes(stream)
    _declare_ends(stream)
    return stream


def _declare_queries(stream: Noun) -> None:
    stream.verb(
        *("list", "headrace.cli.stream.listing", "list_streams"),
        "List the streams of a scope, or of all: segments that take events, bytes that are retained, tags.",
        """
        headrace stream list
        headrace stream list demo --tag billing --json
        headrace stream list demo --names
        """,
        argument("scope", "[SCOPE]", required=False, shell_complete=complete_scope),
        option("-t", "--tag", metavar="TAG", help="only streams with this tag"),
        flag("--names", help="only SCOPE/STREAM, one a line"),
        flag("--internal", help="also internal streams"),
        *CONNECTION,
    )
    stream.verb(
        *("describe", _QUERIES, "describe_stream"),
        "Show configuration, head, tail and segments of a stream.",
        "headrace stream describe demo/orders",
        STREAM,
        *CONNECTION,
    )
    stream.verb(
        *("cut", _QUERIES, "print_cut", "Print the cut at which a stream is, or was at a time, as text."),
        """
        headrace stream cut demo/orders
        headrace stream cut demo/orders --at 2026-11-25T10:00
        headrace event read demo/orders --from "$(headrace stream cut demo/orders --at 90min)"
        """,
        STREAM,
        option(
            "--at",
            metavar="TIME",
            help="where it was then: ISO time (local unless it has a zone), ms since 1970, or how long ago, "
            "such as 1h (default: its tail); up to 10 s too early within an hour, a minute within a day, "
            "else 10 min",
        ),
        *CONNECTION,
    )


def _declare_wait(stream: Noun) -> None:
    stream.verb(
        *("wait", "headrace.cli.stream.wait", "wait_for_stream"),
        "Wait until a stream has so many events, bytes or segments, or is sealed; exit code 4 if that takes "
        "too long.",
        """
        headrace stream wait demo/orders --events 1000
        headrace stream wait demo/orders --sealed --timeout 1h
        """,
        STREAM,
        option(
            "--events", type=int, metavar="N", help="so many that are retained, or more: they are counted"
        ),
        option("--bytes", "size", metavar="SIZE", help="so many that are retained, or more, such as 100MiB"),
        option("-s", "--segments", type=int, metavar="N", help="exactly so many that take events"),
        flag("--sealed", help="until it takes no events any more"),
        option(
            "--timeout",
            metavar="DURATION",
            default="60s",
            help="give up after it; a number alone is seconds (default: 60s)",
        ),
        *CONNECTION,
        needed=("events", "size", "segments", "sealed"),
    )


def _declare_create(stream: Noun) -> None:
    stream.verb(
        *("create", "headrace.cli.stream.create", "create_stream", "Create a stream."),
        """
        headrace stream create demo/orders --segments 4
        headrace stream create demo/clicks --events-per-second 1000 --retention '7 days' --tag web
        """,
        STREAM,
        option(
            *("-s", "--segments"),
            type=int,
            metavar="N",
            help="at the start, and at least (default: 1)",
        ),
        option("--events-per-second", type=int, metavar="RATE", help=_RATE),
        option("--kib-per-second", type=int, metavar="RATE", help=_RATE),
        option(
            "--scale-factor", type=int, metavar="N", help="with a rate: most pieces of one split (default: 2)"
        ),
        _RETENTION,
        option("--retain-time", metavar="DURATION", help="drop what is older, such as 7d or 2h30m"),
        option("--retain-size", metavar="SIZE", help="drop the oldest beyond it, such as 100GiB"),
        option("-t", "--tag", "tags", metavar="TAG", multiple=True, help="may be given several times"),
        flag("--records", help="events have a time, a key and headers, for the life of the stream"),
        flag("--create-scope", help="create the scope if it is missing"),
        flag("--if-absent", help="succeed if the stream exists already"),
        *CONNECTION,
        apart=[("events_per_second", "kib_per_second"), ("retention", "retain_time", "retain_size")],
    )


def _declare_changes(stream: Noun) -> None:
    stream.verb(
        *("scale", _CHANGES, "scale_stream", "Replace segments by others that own the same keys."),
        """
        headrace stream scale demo/orders --segments 8
        headrace stream scale demo/orders --split 0#0 --into 3
        headrace stream scale demo/orders --merge 1#1 2#1
        """,
        STREAM,
        option("-s", "--segments", type=int, metavar="N", help="go on with this many of equal size"),
        option("--split", type=SegmentId(), metavar="ID", help="divide one segment, such as 0#0"),
        Several("--merge", type=SegmentId(), metavar="ID", help="join neighbours into one segment"),
        option("--into", type=int, metavar="N", default=2, help="pieces of --split (default: 2)"),
        *CONNECTION,
        needed=("segments", "split", "merge"),
    )
    stream.verb(
        *("update", "headrace.cli.stream.update", "update_stream"),
        "Change scaling, retention and tags of a stream: what is given, and nothing else.",
        """
        headrace stream update demo/clicks --events-per-second 2000 --retention '14 days'
        headrace stream update demo/clicks --tag web --untag test
        """,
        STREAM,
        option("-s", "--segments", type=int, metavar="N", help="at least so many from now on"),
        option("--events-per-second", type=int, metavar="RATE", help=_RATE),
        option("--kib-per-second", type=int, metavar="RATE", help=_RATE),
        flag("--fixed", help="split and merge no segments by load any more"),
        option("--scale-factor", type=int, metavar="N", help="with a rate: most pieces of one split"),
        _RETENTION,
        option("--retain-time", metavar="DURATION", help="drop what is older, such as 7d or 2h30m"),
        option("--retain-size", metavar="SIZE", help="drop the oldest beyond it, such as 100GiB"),
        flag("--retain-all", help="drop nothing any more"),
        option("-t", "--tag", "tags", metavar="TAG", multiple=True, help="add a tag; may be repeated"),
        option("--untag", metavar="TAG", multiple=True, help="remove a tag; may be repeated"),
        *CONNECTION,
        apart=[
            ("events_per_second", "kib_per_second", "fixed"),
            ("retention", "retain_time", "retain_size", "retain_all"),
        ],
    )
    stream.verb(
        *("truncate", _CHANGES, "truncate_stream", "Drop the events in front of a cut."),
        """
        headrace stream truncate demo/orders --to tail --yes
        headrace stream truncate demo/orders --to H4sIAAAA... --yes
        """,
        STREAM,
        option("--to", required=True, metavar="CUT", help="a cut as text, or 'tail'"),
        flag("--any-offset", help="also inside of what looks like an event: plain bytes"),
        YES,
        *CONNECTION,
    )
    stream.verb(
        *("purge", "headrace.cli.stream.purge", "purge_stream"),
        "Make what was truncated unreadable at once: in the log, in long-term storage, on every disk "
        "(on those of bookies when these compact).",
        "headrace stream purge demo/orders --rest 127.0.0.1:10080 --yes",
        STREAM,
        YES,
        *REST_SERVER,
    )


def _declare_ends(stream: Noun) -> None:
    stream.verb(
        *("seal", _CHANGES, "seal_stream", "Allow no more writes to a stream."),
        "headrace stream seal demo/orders --yes",
        STREAM,
        YES,
        *CONNECTION,
    )
    stream.verb(
        *("delete", _CHANGES, "delete_stream", "Delete a sealed stream with all its events."),
        """
        headrace stream delete demo/orders --yes
        headrace stream delete demo/orders --seal --yes
        """,
        STREAM,
        flag("--seal", help="seal it first"),
        flag("--if-exists", help="succeed if there is none"),
        YES,
        *CONNECTION,
    )
