"""``headrace event``: write events from arguments or lines, read them to the terminal or a program."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from headrace.cli.given_events import (
    GivenEvent,
    Parse,
    event_document,
    json_events,
    key_of,
    keyed_events,
    plain_events,
)
from headrace.cli.output import print_json, printable, progress
from headrace.cli.verbs import Subparsers, add_noun, add_verb, connect, scoped
from headrace.errors import InvalidArgumentError
from headrace.limits import MIB

if TYPE_CHECKING:  # the client is imported by the verb when it is executed: help is fast
    from headrace.client.blocking import BlockingEventReader, BlockingWriter
    from headrace.client.reader.cuts import Edge
    from headrace.client.reader.event_batch import Event

LINE_BYTES_MAX: Final = 64 * MIB
"""Of standard input: as JSON the largest event takes up to six times its bytes."""

_REFUSALS_SHOWN: Final = 10


def register(nouns: Subparsers[argparse.ArgumentParser]) -> None:
    verbs = add_noun(nouns, "event", "Write events to a stream, read events from it.")
    write = add_verb(
        verbs,
        "write",
        write_events,
        "Write each argument, or each line of standard input, as one event; return when all are durable.",
        """
        headrace event write demo/orders 'an event' 'another one'
        seq 1000 | headrace event write demo/orders --key counter
        headrace event write demo/orders --key-separator : --atomic < events.txt
        headrace event read demo/orders --json | headrace event write demo/copy --input json
        """,
    )
    write.add_argument("stream", metavar="SCOPE/STREAM")
    write.add_argument("events", metavar="EVENT", nargs="*", help="instead of lines of standard input")
    write.add_argument(
        "--input",
        choices=["lines", "json"],
        default="lines",
        help="lines: all bytes but the newline; json: objects with event or event_base64, perhaps "
        "key, as 'event read --json' prints them",
    )
    write.add_argument("--atomic", action="store_true", help="all events or none, in one transaction")
    write.add_argument(
        "--on-error",
        choices=["stop", "skip"],
        default="stop",
        help="what follows from a line that is no event (default: stop)",
    )
    keys = write.add_mutually_exclusive_group()
    keys.add_argument("--key", help="routing key of all events: they keep their order")
    keys.add_argument("--key-separator", metavar="TEXT", help="what stands before it is the routing key")

    read = add_verb(
        verbs,
        "read",
        read_events,
        "Print the events of a stream, one a line, up to its present tail.",
        """
        headrace event read demo/orders
        headrace event read demo/orders --from tail --follow
        headrace event read demo/orders --since 1h
        headrace event read demo/orders --count 10 --json
        """,
    )
    read.add_argument("stream", metavar="SCOPE/STREAM")
    starts = read.add_mutually_exclusive_group()
    starts.add_argument("--from", dest="start", default="head", metavar="CUT", help="head, tail or a cut")
    starts.add_argument(
        "--since",
        metavar="TIME",
        help="from where the stream was then, as 'stream cut --at' finds it: 1h, 2026-11-25T10:00",
    )
    ends = read.add_mutually_exclusive_group()
    ends.add_argument("--to", default="tail", metavar="CUT", help="tail as it is now, or a cut")
    ends.add_argument("--follow", action="store_true", help="wait for more until the stream is sealed")
    read.add_argument("--count", type=int, metavar="N", help="stop after so many events")
    read.add_argument("--position", action="store_true", help="print on stderr the cut to continue from")


# ------------------------------------------------------------------------------------------ writing


@dataclass(slots=True)
class _Tally:
    """What became of the events that were given."""

    events: int = 0
    size_bytes: int = 0
    empty: int = 0
    refused: int = 0


def write_events(chosen: argparse.Namespace) -> None:
    scope, stream = scoped(chosen.stream)
    tally = _Tally()
    events = _usable_events(chosen, _parser_of(chosen), tally)
    if chosen.events:
        events = iter(list(events))  # one that is no event is refused before any other is written
    with connect(chosen) as client:
        if chosen.atomic:
            with client.txn_writer(scope, stream) as transactions, transactions.begin() as transaction:
                _write_all(transaction, events, tally)
                transaction.commit(wait=True)
        else:
            with client.event_writer(scope, stream) as writer:
                _write_all(writer, events, tally)
    if tally.empty:
        progress(f"{tally.empty} empty events were left out")
    if tally.refused > _REFUSALS_SHOWN:
        progress(f"{tally.refused} were left out in all")
    if chosen.json:
        print_json(
            {
                "scope": scope,
                "stream": stream,
                "events": tally.events,
                "bytes": tally.size_bytes,
                "skipped": tally.empty,
                "refused": tally.refused,
            }
        )


def _parser_of(chosen: argparse.Namespace) -> Parse:
    """Return what makes events of texts. The options hold what the shell passed, byte for byte."""
    key = None if chosen.key is None else key_of(os.fsencode(chosen.key))
    if chosen.key_separator is not None:
        if chosen.input == "json":
            raise InvalidArgumentError("--key-separator is for --input lines; in JSON an event has a 'key'")
        return keyed_events(os.fsencode(chosen.key_separator))
    return json_events(key) if chosen.input == "json" else plain_events(key)


def _write_all(writer: BlockingWriter, events: Iterator[GivenEvent], tally: _Tally) -> None:
    for event in events:
        writer.write(event.data, event.key)
        tally.events += 1
        tally.size_bytes += len(event.data)


def _usable_events(chosen: argparse.Namespace, parse: Parse, tally: _Tally) -> Iterator[GivenEvent]:
    """Yield what can be written; the caller counts it in ``tally`` before it asks for the next.

    Raises:
        InvalidArgumentError: a text is no event, and ``--on-error`` does not say that it is left out.
    """
    what = "event" if chosen.events else "line"
    for number, text in enumerate(_given_texts(chosen), 1):
        try:
            if text is None:
                raise InvalidArgumentError(f"is longer than {LINE_BYTES_MAX} bytes")
            event = parse(text)
        except InvalidArgumentError as error:
            reason = f"{what} {number} {error}"
            if chosen.on_error == "stop":
                raise InvalidArgumentError(f"{reason}: {_outcome(chosen, tally)}") from None
            tally.refused += 1
            if tally.refused <= _REFUSALS_SHOWN:
                progress(printable(f"left out: {reason}"))
            continue
        if event.data:
            yield event
        else:
            tally.empty += 1  # the protocol has no empty events


def _outcome(chosen: argparse.Namespace, tally: _Tally) -> str:
    if chosen.atomic or chosen.events or not tally.events:
        return "nothing was written"
    written = "1 event was" if tally.events == 1 else f"{tally.events} events were"
    return f"{written} written before; --atomic writes all or none, --on-error skip leaves such lines out"


def _given_texts(chosen: argparse.Namespace) -> Iterator[bytes | None]:
    """Yield the arguments, or the lines of standard input without their ends; None: one is too long."""
    if chosen.events:
        yield from map(os.fsencode, chosen.events)
        return
    source = sys.stdin.buffer
    while line := source.readline(LINE_BYTES_MAX + 1):
        if line.endswith(b"\n"):
            yield line[:-1]
        elif len(line) <= LINE_BYTES_MAX:
            yield line  # the last one, without an end
        else:
            yield None
            while line and not line.endswith(b"\n"):
                line = source.readline(MIB)


# ------------------------------------------------------------------------------------------ reading


def read_events(chosen: argparse.Namespace) -> None:
    from headrace.runtime.clock import SystemClock
    from headrace.runtime.times import parse_time_ms

    scope, stream = scoped(chosen.stream)
    if chosen.count is not None and chosen.count < 1:
        raise InvalidArgumentError(f"at least 1 event has to be read, not {chosen.count}")
    start, end = _edge(chosen.start), None if chosen.follow else _edge(chosen.to)
    since_ms = None if chosen.since is None else parse_time_ms(chosen.since, SystemClock().now_ms())
    with connect(chosen) as client:
        if since_ms is not None:
            start = client.cut_at(scope, stream, since_ms).cut
        with client.event_reader(scope, stream, start=start, end=end) as reader:
            try:
                _print_all(chosen, reader)
            finally:
                if chosen.position:
                    progress(reader.position().as_text())


def _print_all(chosen: argparse.Namespace, reader: BlockingEventReader) -> None:
    if chosen.count is None:
        while (batch := reader.next_batch()) is not None:
            for event in batch.events():
                _print_event(chosen, event)
            sys.stdout.buffer.flush()  # an event appears at once when a stream is followed
        return
    left = chosen.count
    for event in reader:
        _print_event(chosen, event)
        left -= 1
        if not left:
            break
    sys.stdout.buffer.flush()


def _print_event(chosen: argparse.Namespace, event: Event) -> None:
    if not chosen.json:
        sys.stdout.buffer.write(event.data + b"\n")
        return
    line = {"segment": event.segment_id, "offset": event.offset, **event_document(event.data)}
    sys.stdout.buffer.write(json.dumps(line).encode() + b"\n")


def _edge(text: str) -> Edge:
    from headrace.model.stream_cut import StreamCut

    if text == "head":
        return "head"
    if text == "tail":
        return "tail"
    return StreamCut.from_text(text)
