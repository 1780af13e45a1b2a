"""What ``headrace event read`` does."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from headrace.cli.given_events import event_document
from headrace.cli.output import progress
from headrace.cli.servers import Connection, scoped
from headrace.errors import InvalidArgumentError
from headrace.model.segment_id import segment_id_text

if TYPE_CHECKING:  # the connection imports the client when it is made
    from headrace.client.blocking import BlockingEventReader
    from headrace.client.reader.cuts import Edge
    from headrace.client.reader.event_batch import Event

    Print = Callable[[Event], None]


def read_events(
    *,
    stream: str,
    start: str,
    since: str | None,
    end: str,
    follow: bool,
    count: int | None,
    position: bool,
    connection: Connection,
    as_json: bool,
) -> None:
    """Print events; ``start`` and ``end`` are ``head``, ``tail`` or cuts, ``since`` is a time."""
    from headrace.runtime.clock import SystemClock
    from headrace.runtime.times import parse_time_ms

    scope, stream = scoped(stream)
    if count is not None and count < 1:
        raise InvalidArgumentError(f"at least 1 event has to be read, not {count}")
    first, last = _edge(start), None if follow else _edge(end)
    since_ms = None if since is None else parse_time_ms(since, SystemClock().now_ms())
    with connection.connect() as client:
        if since_ms is not None:
            first = client.cut_at(scope, stream, since_ms).cut
        with client.event_reader(scope, stream, start=first, end=last) as reader:
            try:
                _print_all(reader, count, _print_document if as_json else _print_bytes)
            finally:
                if position:
                    progress(reader.position().as_text())


def _print_all(reader: BlockingEventReader, count: int | None, print_event: Print) -> None:
    if count is None:
        while (batch := reader.next_batch()) is not None:
            for event in batch.events():
                print_event(event)
            sys.stdout.buffer.flush()  # an event appears at once when a stream is followed
        return
    for event in reader:
        print_event(event)
        count -= 1
        if not count:
            break
    sys.stdout.buffer.flush()


def _print_bytes(event: Event) -> None:
    sys.stdout.buffer.write(event.data + b"\n")


def _print_document(event: Event) -> None:
    line = {
        "segment": event.segment_id,
        "segment_text": segment_id_text(event.segment_id),
        "offset": event.offset,
        **event_document(event.data),
    }
    sys.stdout.buffer.write(json.dumps(line).encode() + b"\n")


def _edge(text: str) -> Edge:
    from headrace.model.stream_cut import StreamCut

    if text == "head":
        return "head"
    if text == "tail":
        return "tail"
    return StreamCut.from_text(text)
