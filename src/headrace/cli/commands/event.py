"""``headrace event``: write events from arguments or lines, read them to the terminal or a program."""

from __future__ import annotations

import argparse
import base64
import json
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

from headrace.cli.output import print_json, progress
from headrace.cli.verbs import Subparsers, add_noun, add_verb, connect, scoped
from headrace.errors import InvalidArgumentError

if TYPE_CHECKING:  # the client is imported by the verb when it is executed: help is fast
    from headrace.client.blocking import BlockingEventReader
    from headrace.client.reader.cuts import Edge
    from headrace.client.reader.event_batch import Event


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
        headrace event write demo/orders --key-separator : < events.txt
        """,
    )
    write.add_argument("stream", metavar="SCOPE/STREAM")
    write.add_argument("events", metavar="EVENT", nargs="*", help="instead of lines of standard input")
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
        headrace event read demo/orders --count 10 --json
        """,
    )
    read.add_argument("stream", metavar="SCOPE/STREAM")
    read.add_argument("--from", dest="start", default="head", metavar="CUT", help="head, tail or a cut")
    ends = read.add_mutually_exclusive_group()
    ends.add_argument("--to", default="tail", metavar="CUT", help="tail as it is now, or a cut")
    ends.add_argument("--follow", action="store_true", help="wait for more until the stream is sealed")
    read.add_argument("--count", type=int, metavar="N", help="stop after so many events")
    read.add_argument("--position", action="store_true", help="print on stderr the cut to continue from")


# ------------------------------------------------------------------------------------------ writing


def write_events(chosen: argparse.Namespace) -> None:
    scope, stream = scoped(chosen.stream)
    separator = None if chosen.key_separator is None else chosen.key_separator.encode()
    if separator == b"":
        raise InvalidArgumentError("the separator of keys is empty")
    count = size = skipped = 0
    with connect(chosen) as client, client.event_writer(scope, stream) as writer:
        for event in _given_events(chosen):
            key: str | None = chosen.key
            if separator is not None and event:
                before, found, event = event.partition(separator)
                if not found:
                    number = count + skipped + 1
                    raise InvalidArgumentError(f"event {number} has no {chosen.key_separator!r} in it")
                key = before.decode(errors="surrogateescape")
            if not event:
                skipped += 1  # the protocol has no empty events
                continue
            writer.write(event, key)
            count += 1
            size += len(event)
    if skipped:
        progress(f"{skipped} empty events were left out")
    if chosen.json:
        print_json({"scope": scope, "stream": stream, "events": count, "bytes": size, "skipped": skipped})


def _given_events(chosen: argparse.Namespace) -> Iterator[bytes]:
    if chosen.events:
        for event in chosen.events:
            yield event.encode(errors="surrogateescape")
        return
    for line in sys.stdin.buffer:
        yield line.removesuffix(b"\n").removesuffix(b"\r")


# ------------------------------------------------------------------------------------------ reading


def read_events(chosen: argparse.Namespace) -> None:
    scope, stream = scoped(chosen.stream)
    if chosen.count is not None and chosen.count < 1:
        raise InvalidArgumentError(f"at least 1 event has to be read, not {chosen.count}")
    start, end = _edge(chosen.start), None if chosen.follow else _edge(chosen.to)
    with connect(chosen) as client, client.event_reader(scope, stream, start=start, end=end) as reader:
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
    line: dict[str, object] = {"segment": event.segment_id, "offset": event.offset}
    try:
        line["event"] = event.data.decode()
    except UnicodeDecodeError:
        line["event_base64"] = base64.b64encode(event.data).decode()
    sys.stdout.buffer.write(json.dumps(line).encode() + b"\n")


def _edge(text: str) -> Edge:
    from headrace.model.stream_cut import StreamCut

    if text == "head":
        return "head"
    if text == "tail":
        return "tail"
    return StreamCut.from_text(text)
