"""What ``headrace event read`` does."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from headrace.cli.event.format import format_of
from headrace.cli.event.given_events import event_document
from headrace.cli.event.server_watch import server_watched
from headrace.cli.output import progress
from headrace.cli.progress import Progress
from headrace.cli.servers import Connection, scoped
from headrace.errors import InvalidArgumentError
from headrace.model.segment_id import segment_id_text

if TYPE_CHECKING:  # the connection imports the client when it is made
    from headrace.client.blocking import BlockingEventReader, GroupReader
    from headrace.client.reader.event_batch import Event

    Print = Callable[[Event], None]

_JSON_WORDS: Final = {"json", "jsonl", "ndjson"}


def read_events(
    *,
    stream: str,
    start: str,
    since: str | None,
    last: int | None,
    end: str,
    until: str | None,
    follow: bool,
    group: str | None,
    limit: int | None,
    template: str | None,
    position: bool,
    connection: Connection,
    as_json: bool,
) -> None:
    """Print events; ``start`` and ``end`` are ``head``, ``tail`` or cuts, ``since`` and ``until`` are times.

    ``last``: so many events in front of the tail. ``group``: as one of its readers.
    ``template``: how an event is printed.
    """
    scope, stream = scoped(stream)
    if limit is not None and limit < 1:
        raise InvalidArgumentError(f"at least 1 event has to be read, not {limit}")
    if template is not None and template.strip().lower() in _JSON_WORDS:
        raise InvalidArgumentError(
            f"--format {template} would print this word for each event: --json prints them as JSON"
        )
    if template is not None and as_json:
        raise InvalidArgumentError("--format and --json exclude each other")
    if last is not None and (end != "tail" or until is not None):
        given = "--to" if until is None else "--until"
        raise InvalidArgumentError(f"--last is about the tail: with {given}, give --limit instead")
    print_event = _print_document if as_json else _printer_of(template)
    if group is not None:
        with (
            connection.connect() as client,
            client.reader_group(
                f"{scope}/{stream}", group=group, start=start if since is None else since
            ) as opened,
            opened.reader() as member,
            server_watched(),
        ):
            _print_all(member, limit, print_event, quiet=as_json or sys.stdout.isatty(), at_once=True)
            member.handled()  # it is printed
        return
    with (
        connection.connect() as client,
        client.event_reader(
            scope,
            stream,
            start=start,
            end=None if follow else end,
            since=since,
            until=until,
            last=last,
            limit=limit,
        ) as reader,
    ):
        try:
            quiet = as_json or sys.stdout.isatty()
            with server_watched():
                _print_all(reader, limit, print_event, quiet=quiet, at_once=follow)
        finally:
            if position:
                progress(reader.position().as_text())


def _print_all(
    reader: BlockingEventReader | GroupReader,
    limit: int | None,
    print_event: Print,
    *,
    quiet: bool,
    at_once: bool,
) -> None:
    """Print events up to the end. Progress is shown beside what goes into a file."""
    done = 0
    with Progress("reading", "events", limit, quiet=quiet) as shown:
        for event in reader:
            print_event(event)
            if at_once:  # when a stream is followed
                sys.stdout.buffer.flush()
            done += 1
            shown.show(done)
            if done == limit:
                break
    sys.stdout.buffer.flush()


def _printer_of(template: str | None) -> Print:
    if template is None:
        return lambda event: _write(event.data + b"\n")
    formatted = format_of(template)
    return lambda event: _write(formatted(event))


def _write(data: bytes) -> None:
    sys.stdout.buffer.write(data)


def _print_document(event: Event) -> None:
    line = {
        "segment": event.segment_id,
        "segment_text": segment_id_text(event.segment_id),
        "offset": event.offset,
        **event_document(event.data),
    }
    sys.stdout.buffer.write(json.dumps(line).encode() + b"\n")
