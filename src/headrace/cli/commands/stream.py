"""``headrace stream``: what its verbs are called and which options they take."""

from __future__ import annotations

from headrace.cli.shared_options import (
    CONNECTION,
    REST_SERVER,
    SCOPE,
    STREAM,
    YES,
    SegmentId,
    Several,
    flag,
    option,
)
from headrace.cli.verbs import Noun

_QUERIES = "headrace.cli.stream_queries"
_CHANGES = "headrace.cli.stream_changes"


def declare(name: str, summary: str) -> Noun:
    stream = Noun(name, summary)
    _declare_queries(stream)
    _declare_create(stream)
    _declare_changes(stream)
    _declare_ends(stream)
    return stream


def _declare_queries(stream: Noun) -> None:
    stream.verb(
        *("list", _QUERIES, "list_streams", "List the streams of a scope."),
        """
        headrace stream list demo
        headrace stream list demo --tag billing --json
        """,
        SCOPE,
        option("-t", "--tag", metavar="TAG", help="only streams with this tag"),
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


def _declare_create(stream: Noun) -> None:
    rate = "split and merge segments to keep each below this rate"
    stream.verb(
        *("create", "headrace.cli.stream_create", "create_stream", "Create a stream."),
        """
        headrace stream create demo/orders --segments 4
        headrace stream create demo/clicks --events-per-second 1000 --retain-time 7d --tag web
        """,
        STREAM,
        option(
            *("-s", "--segments"),
            type=int,
            metavar="N",
            default=1,
            help="at the start, and at least (default: 1)",
        ),
        option("--events-per-second", type=int, metavar="RATE", help=rate),
        option("--kib-per-second", type=int, metavar="RATE", help=rate),
        option(
            "--scale-factor", type=int, metavar="N", help="with a rate: most pieces of one split (default: 2)"
        ),
        option("--retain-time", metavar="DURATION", help="drop what is older, such as 7d or 12h"),
        option("--retain-size", metavar="SIZE", help="drop the oldest beyond it, such as 100GiB"),
        option("-t", "--tag", "tags", metavar="TAG", multiple=True, help="may be given several times"),
        flag("--create-scope", help="create the scope if it is missing"),
        flag("--if-absent", help="succeed if the stream exists already"),
        *CONNECTION,
        apart=[("events_per_second", "kib_per_second"), ("retain_time", "retain_size")],
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
        *("purge", "headrace.cli.stream_purge", "purge_stream"),
        "Make what was truncated unreadable at once: in the log, in long-term storage, on every disk.",
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
