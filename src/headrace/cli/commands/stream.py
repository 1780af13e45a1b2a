"""``headrace stream``: what its verbs are called and which options they take."""

from __future__ import annotations

import argparse

from headrace.cli.commands.stream_changes import delete_stream, scale_stream, seal_stream, truncate_stream
from headrace.cli.commands.stream_queries import describe_stream, list_streams, print_cut
from headrace.cli.output import print_json
from headrace.cli.verbs import Subparsers, add_confirmation, add_noun, add_rest, add_verb, connect, scoped
from headrace.errors import InvalidArgumentError, NoSuchScopeError, StreamExistsError
from headrace.model.policies import (
    RetentionPolicy,
    ScalingPolicy,
    StreamConfiguration,
)


def register(nouns: Subparsers[argparse.ArgumentParser]) -> None:
    verbs = add_noun(nouns, "stream", "Create, describe, scale, truncate, seal and delete streams.")
    _register_queries(verbs)
    _register_create(verbs)
    _register_changes(verbs)


def _register_queries(verbs: Subparsers[argparse.ArgumentParser]) -> None:
    lists = add_verb(
        verbs,
        "list",
        list_streams,
        "List the streams of a scope.",
        """
        headrace stream list demo
        headrace stream list demo --tag billing --json
        """,
    )
    lists.add_argument("scope", metavar="SCOPE")
    lists.add_argument("--tag", help="only streams with this tag")
    lists.add_argument("--internal", action="store_true", help="also internal streams")

    describe = add_verb(
        verbs,
        "describe",
        describe_stream,
        "Show configuration, head, tail and segments of a stream.",
        "headrace stream describe demo/orders",
    )
    describe.add_argument("stream", metavar="SCOPE/STREAM")

    cut = add_verb(
        verbs,
        "cut",
        print_cut,
        "Print the cut at which a stream is, or was at a time, as text.",
        """
        headrace stream cut demo/orders
        headrace stream cut demo/orders --at 2026-11-25T10:00
        headrace event read demo/orders --from "$(headrace stream cut demo/orders --at 90min)"
        """,
    )
    cut.add_argument("stream", metavar="SCOPE/STREAM")
    cut.add_argument(
        "--at",
        metavar="TIME",
        help="where it was then: ISO time (local unless it has a zone), ms since 1970, or how long ago, such "
        "as 1h (default: its tail); up to 10 s too early within an hour, a minute within a day, else 10 min",
    )


def _register_create(verbs: Subparsers[argparse.ArgumentParser]) -> None:
    create = add_verb(
        verbs,
        "create",
        create_stream,
        "Create a stream.",
        """
        headrace stream create demo/orders --segments 4
        headrace stream create demo/clicks --events-per-second 1000 --retain-time 7d --tag web
        """,
    )
    create.add_argument("stream", metavar="SCOPE/STREAM")
    create.add_argument(
        "--segments", type=int, metavar="N", default=1, help="at the start, and at least (default: 1)"
    )
    rate = create.add_mutually_exclusive_group()
    target = "split and merge segments to keep each below this rate"
    rate.add_argument("--events-per-second", type=int, metavar="RATE", help=target)
    rate.add_argument("--kib-per-second", type=int, metavar="RATE", help=target)
    create.add_argument(
        "--scale-factor", type=int, metavar="N", help="with a rate: most pieces of one split (default: 2)"
    )
    keep = create.add_mutually_exclusive_group()
    age, size = "drop what is older, such as 7d or 12h", "drop the oldest beyond it, such as 100GiB"
    keep.add_argument("--retain-time", metavar="DURATION", help=age)
    keep.add_argument("--retain-size", metavar="SIZE", help=size)
    create.add_argument("--tag", action="append", default=[], help="may be given several times")
    create.add_argument("--create-scope", action="store_true", help="create the scope if it is missing")
    create.add_argument("--if-absent", action="store_true", help="succeed if the stream exists already")


def _register_changes(verbs: Subparsers[argparse.ArgumentParser]) -> None:
    scale = add_verb(
        verbs,
        "scale",
        scale_stream,
        "Replace segments by others that own the same keys.",
        """
        headrace stream scale demo/orders --segments 8
        headrace stream scale demo/orders --split 0 --into 3
        headrace stream scale demo/orders --merge 4294967297 4294967298
        """,
    )
    scale.add_argument("stream", metavar="SCOPE/STREAM")
    how = scale.add_mutually_exclusive_group(required=True)
    how.add_argument("--segments", type=int, metavar="N", help="go on with this many of equal size")
    how.add_argument("--split", type=int, metavar="ID", help="divide one segment")
    how.add_argument("--merge", type=int, nargs="+", metavar="ID", help="join neighbours into one segment")
    scale.add_argument("--into", type=int, metavar="N", default=2, help="pieces of --split (default: 2)")

    truncate = add_verb(
        verbs,
        "truncate",
        truncate_stream,
        "Drop the events in front of a cut.",
        """
        headrace stream truncate demo/orders --to tail --yes
        headrace stream truncate demo/orders --to H4sIAAAA... --yes
        """,
    )
    truncate.add_argument("stream", metavar="SCOPE/STREAM")
    truncate.add_argument("--to", required=True, metavar="CUT", help="a cut as text, or 'tail'")
    truncate.add_argument(
        "--any-offset", action="store_true", help="also inside of what looks like an event: plain bytes"
    )
    add_confirmation(truncate)

    purge = add_verb(
        verbs,
        "purge",
        purge_stream,
        "Make what was truncated unreadable at once: in the log, in long-term storage, on every disk.",
        "headrace stream purge demo/orders --rest 127.0.0.1:10080 --yes",
        connects=False,
    )
    purge.add_argument("stream", metavar="SCOPE/STREAM")
    add_rest(purge)
    add_confirmation(purge)

    seal = add_verb(
        verbs,
        "seal",
        seal_stream,
        "Allow no more writes to a stream.",
        "headrace stream seal demo/orders --yes",
    )
    seal.add_argument("stream", metavar="SCOPE/STREAM")
    add_confirmation(seal)

    delete = add_verb(
        verbs,
        "delete",
        delete_stream,
        "Delete a sealed stream with all its events.",
        """
        headrace stream delete demo/orders --yes
        headrace stream delete demo/orders --seal --yes
        """,
    )
    delete.add_argument("stream", metavar="SCOPE/STREAM")
    delete.add_argument("--seal", action="store_true", help="seal it first")
    delete.add_argument("--if-exists", action="store_true", help="succeed if there is none")
    add_confirmation(delete)


def purge_stream(chosen: argparse.Namespace) -> None:
    from headrace.cli.stream_purge import purge_stream as purge  # help is fast without it

    purge(chosen)


def create_stream(chosen: argparse.Namespace) -> None:
    from headrace.runtime.quantities import parse_bytes, parse_duration_ms

    scope, stream = scoped(chosen.stream)
    factor = 2 if chosen.scale_factor is None else chosen.scale_factor
    if chosen.events_per_second is not None:
        scaling = ScalingPolicy.by_event_rate(chosen.events_per_second, factor, chosen.segments)
    elif chosen.kib_per_second is not None:
        scaling = ScalingPolicy.by_data_rate(chosen.kib_per_second, factor, chosen.segments)
    elif chosen.scale_factor is not None:
        raise InvalidArgumentError("--scale-factor needs --events-per-second or --kib-per-second")
    else:
        scaling = ScalingPolicy.fixed(chosen.segments)
    retention = RetentionPolicy.none()
    if chosen.retain_time is not None:
        retention = RetentionPolicy.by_time(parse_duration_ms(chosen.retain_time))
    elif chosen.retain_size is not None:
        retention = RetentionPolicy.by_size(parse_bytes(chosen.retain_size))
    configuration = StreamConfiguration(scaling=scaling, retention=retention, tags=frozenset(chosen.tag))
    with connect(chosen) as client:
        try:
            created = client.create_stream(scope, stream, configuration)
        except NoSuchScopeError:
            if not chosen.create_scope:
                raise
            client.create_scope(scope)  # only now: a stream that cannot be leaves no scope behind
            created = client.create_stream(scope, stream, configuration)
    if not created and not chosen.if_absent:
        raise StreamExistsError(f"stream {scope}/{stream} exists already")
    if chosen.json:
        print_json({"scope": scope, "stream": stream, "created": created})
